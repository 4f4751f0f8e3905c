"""Imports every chapter, so that every op class is registered."""

from . import async_copy as async_copy
from . import atomic as atomic
from . import barrier as barrier
from . import cluster as cluster
from . import comparison as comparison
from . import control as control
from . import conversion as conversion
from . import extended as extended
from . import fabric as fabric
from . import floating as floating
from . import integer as integer
from . import logic as logic
from . import matrix as matrix
from . import mbarrier as mbarrier
from . import misc as misc
from . import move as move
from . import movement as movement
from . import sparsity as sparsity
from . import stack as stack
from . import surface as surface
from . import tcgen05 as tcgen05
from . import tensor_map as tensor_map
from . import texture as texture
from . import video as video
from . import warp as warp
from . import wgmma as wgmma
