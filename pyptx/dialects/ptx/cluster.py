"""Cluster launch control: a running cluster takes over the work of one that has not been launched yet
(PTX ISA 9.7.15.18, 9.7.15.19).
"""

from __future__ import annotations

from .forms import form
from .instruction import Instruction, instruction
from .target import need


@instruction
class ClusterTryCancel(Instruction):
    """Ask, asynchronously, to cancel the launch of a cluster that has not begun, so that this one can do its
    work.

    Operands: dst, where the 16-byte answer goes in shared memory, 16-byte aligned, to be read by
    `query_cancel`; mbar, the mbarrier that counts these 16 bytes. With `.multicast::cluster::all` every CTA
    of the cluster gets answer and completion at the same offsets.
    """

    name = "ptx.clusterlaunchcontrol.try_cancel.async"
    section = "9.7.15.18"
    looks_at_schedule = True
    effect = "order"
    polls = True
    proxy = ""
    forms = (
        form(
            "clusterlaunchcontrol.try_cancel.async{.space}.completion{.multicast}.b128 [dst], [mbar]",
            space="shared::cta", completion="mbarrier::complete_tx::bytes", multicast="multicast::cluster::all",
            ptx="8.6", sm="100+", needs={"?multicast": need("8.6", "100af 103af 107af 110af 120af 121af")},
        ),
    )  # fmt: skip


@instruction
class ClusterQueryCancel(Instruction):
    """Read an answer of `try_cancel`: was a cluster cancelled, and which was its first CTA?

    Operands: answer, the 16 bytes in a .b128 register; p, whether a cluster was cancelled; or d, the index of
    its first CTA in one dimension, or all of them in a vector of four (the fourth means nothing), if one was.
    """

    name = "ptx.clusterlaunchcontrol.query_cancel"
    section = "9.7.15.19"
    polls = True
    forms = (
        form("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p:pred, answer:b128", ptx="8.6", sm="100+"),
        form("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 d:b32[v4]_, answer:b128",
             ptx="8.6", sm="100+"),
        form("clusterlaunchcontrol.query_cancel.coordinate.b32.b128 d:b32, answer:b128*",
             coordinate="get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z", ptx="8.6", sm="100+"),
    )  # fmt: skip
