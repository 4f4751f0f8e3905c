"""The parameters that pyptx 0.1 documented under another name than today's.

Public name of a callable -> its positional parameters in 0.1, in order. A keyword of this list is passed at its
position, whatever the parameter is called now.
"""

from __future__ import annotations

__all__ = ["FORMER"]

_TWO = "dtype dst src"
_THREE = "dtype dst a b"

FORMER: dict[str, str] = {
    "Tile.extract_env": "array_shape",
    "Tile.matches": "array_shape array_dtype_name",
    "intrinsic": "fn",
    "ptx.intrinsic": "fn",
    # scalar instructions: today the destination may be left out, so operands have no names
    "ptx.add": _THREE,
    "ptx.sub": _THREE,
    "ptx.mul": _THREE,
    "ptx.and_": _THREE,
    "ptx.or_": _THREE,
    "ptx.xor_": _THREE,
    "ptx.shl": _THREE,
    "ptx.shr": _THREE,
    "ptx.mov": _TWO,
    "ptx.not_": _TWO,
    "ptx.selp": "dtype dst true_val false_val pred_reg",
    "ptx.setp": "cmp_op dtype pred_out a b",
    "ptx.cvt": "dst_type src_type dst src",
    "ptx.ld": "dtype dst addr",
    "ptx.st": "dtype addr src",
    # control flow, barriers, source positions
    "ptx.bra": "label",
    "ptx.if_": "pred_reg",
    "ptx.loop": "label_name",
    "ptx.pipe": "src",
    "ptx.pipeline": "n_stages",
    "ptx.elect_sync": "dst pred_out membermask",
    "ptx.named_barrier": "barrier_id",
    "ptx.NamedBarrier.__init__": "barrier_id count",
    "ptx.setmaxnreg": "count",
    "ptx.setmaxnreg_inc": "reg_count",
    "ptx.setmaxnreg_dec": "reg_count",
    "ptx.file_": "file_idx filename",
    "ptx.loc": "file_idx line col",
    "ptx.pragma": "value",
    "ptx.var": "state_space dtype name",
    "ptx.warp.reduce_sum": "val",
    "ptx.warp.reduce_max": "val",
    "ptx.warp.reduce_min": "val",
    # mbarriers and clusters
    "ptx.mbarrier.arrive_expect_tx": "mbar tx_count",
    "ptx.mbarrier.expect_tx": "mbar tx_count",
    "ptx.MbarrierSlot.arrive_expect_tx": "tx_count",
    "ptx.MbarrierSlot.arrive_remote": "cta_id count",
    "ptx.MbarrierRing.arrive_remote_all": "cta_id count",
    "ptx.cluster.rank": "cta_rank",
    "ptx.cluster.map_shared_u32": "bar_addr cta_id",
    "ptx.cluster.arrive_remote": "bar_addr cta_id count",
    "ptx.cluster.arrive_multicast": "bar_addr mask count",
    # copies and matrices
    "ptx.cp.async_.cg": "smem_dst global_src byte_count",
    "ptx.cp.async_.ca": "smem_dst global_src byte_count",
    "ptx.wgmma.make_descriptor": "smem_base",
    "ptx.wgmma.auto_descriptor": "smem_base",
    "ptx.wgmma.masked_descriptor": "smem_addr",
    "ptx.tcgen05.alloc": "tmem_addr ncols",
    "ptx.tcgen05.mma": "d_tmem a_desc b_desc idesc",
    "ptx.tcgen05.ld": "dst_regs taddr",
    "ptx.tcgen05.st": "taddr src_regs",
    "ptx.tcgen05.descriptor": "smem_addr",
    "ptx.tcgen05.masked_descriptor": "smem_addr",
    "smem.apply_swizzle": "logical_offset",
}
