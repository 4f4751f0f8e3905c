"""Answers to the puzzles: what takes the place of the gap in each starting file."""

ANSWERS = {
    1: "(ptx.pointer(out) + i).store((ptx.pointer(x) + i).load() + (ptx.pointer(y) + i).load())",
    2: """
with ptx.if_(i < N):
    (ptx.pointer(out) + i).store((ptx.pointer(x) + i).load() * 2.0)
""",
    3: """
with ptx.if_(i < N):
    v = ptx.op.fma.rn.f32(ptx.pointer(a).load(), (ptx.pointer(x) + i).load(), (ptx.pointer(y) + i).load())
    (ptx.pointer(out) + i).store(v)
""",
    4: "(ptx.pointer(out) + i).store(ptx.op.max.f32((ptx.pointer(x) + i).load(), 0.0))",
    5: """
total = reg.scalar(f32, init=0.0)
for i in ptx.range_(t, N, 32):
    total += (ptx.pointer(x) + i).load()
(ptx.pointer(out) + t).store(total)
""",
    6: """
total, p, q = reg.scalar(f32, init=0.0), ptx.pointer(a) + row * K, ptx.pointer(x) + 0
for _ in ptx.range_(K):
    total.set(ptx.op.fma.rn.f32(p.load(), q.load(), total))
    p += 1
    q += 1
(ptx.pointer(out) + row).store(total)
""",
    7: """
for n in (16, 8, 4, 2, 1):
    other = reg.scalar(f32)
    ptx.inst.shfl.sync.bfly.b32(other, v, n, 31, -1)
    v += other
with ptx.if_(lane == 0):
    ptx.pointer(out).store(v)
""",
    8: """
s[t,] = (ptx.pointer(x) + t).load()
ptx.bar.sync(0)
for n in (128, 64, 32, 16, 8, 4, 2, 1):
    with ptx.if_(t < n):
        s[t,] = s[t,] + s[t + n,]
    ptx.bar.sync(0)
with ptx.if_(t == 0):
    ptx.pointer(out).store(s[0,])
""",
    9: """
tile = smem.alloc(f32, (32, 33))
for i in range(0, 32, 8):
    tile[row + i, column] = (ptx.pointer(x) + ((row + i) * 32 + column)).load()
ptx.bar.sync(0)
for i in range(0, 32, 8):
    (ptx.pointer(out) + ((row + i) * 32 + column)).store(tile[column, row + i])
""",
    10: """
s = smem.alloc(s32, 16)
with ptx.if_(t < 16):
    s[t,] = 0
ptx.bar.sync(0)
for i in ptx.range_(t, N, 64):
    ptx.inst.red.shared.add.s32(s.element((ptx.pointer(x) + i).load()), 1)
ptx.bar.sync(0)
with ptx.if_(t < 16):
    (ptx.pointer(out) + t).store(s[t,])
""",
    11: """
s = smem.alloc(f32, 128)
v = (ptx.pointer(x) + i).load()
s[i,] = v
ptx.bar.sync(0)
(ptx.pointer(out) + i).store(s[(i + 127) & 127,] + v + s[(i + 1) & 127,])
""",
    12: """
for n in (1, 2, 4, 8, 16):
    other = reg.scalar(f32)
    ptx.inst.shfl.sync.up.b32(other, v, n, 0, -1)
    ptx.inst.add.f32(v, v, other, pred=lane >= n)
(ptx.pointer(out) + lane).store(v)
""",
    13: """
v = (ptx.pointer(x) + t * 4).load(vec=4)
(ptx.pointer(out) + t * 4).store([-a for a in v])
""",
    14: """
word, count = reg.scalar(b32), reg.scalar(b32)
ptx.inst.vote.sync.ballot.b32(word, v > 0.0, -1)
ptx.inst.popc.b32(count, word)
with ptx.if_(lane == 0):
    ptx.inst.st.global_.b32(ptx.pointer(out), count)
""",
    15: """
ptx.cp.async_.ca(s.element(i), ptx.pointer(x) + i, 4)
ptx.cp.async_.commit_group()
ptx.cp.async_.wait_group(0)
ptx.bar.sync(0)
(ptx.pointer(out) + i).store(s[255 - i,])
""",
    16: """
for i, (r, w) in enumerate(((0, 0), (8, 0), (0, 4), (8, 4))):
    ptx.inst.ld.global_.b32(fa[i], pa + ((g + r) * 8 + t + w))
for i, w in enumerate((0, 4)):
    ptx.inst.ld.global_.b32(fb[i], pb + (g * 8 + t + w))
""",
    17: """
with ptx.if_(t < 32):
    v = (ptx.pointer(x) + t).load()
    s[t,] = v * v
    ptx.mbarrier.arrive(ready)
with ptx.else_():
    ptx.mbarrier.wait(ready, 0)
    (ptx.pointer(out) + (t - 32)).store(s[t - 32,])
""",
    18: """
with ptx.if_(i == 0):
    ptx.mbarrier.init(full, 1)
    ptx.fence.mbarrier_init()
ptx.bar.sync(0)
with ptx.if_(i == 0):
    ptx.mbarrier.arrive_expect_tx(full, 512)
    ptx.cp.async_.bulk.load(s, ptx.pointer(x), 512, full)
ptx.mbarrier.wait(full, 0)
(ptx.pointer(out) + i).store(s[i,] * 2.0)
""",
    19: """
for i in ptx.range_(0, N, 128):
    with ptx.if_(t == 0):
        ptx.mbarrier.arrive_expect_tx(full, 512)
        ptx.cp.async_.bulk.load(s, ptx.pointer(x) + i, 512, full)
    ptx.mbarrier.wait(full, parity)
    parity ^= 1
    total += s[t,]
    ptx.bar.sync(0)
""",
    20: """
with ptx.if_(t == 128):
    ring = ptx.pipeline(3, phase=reg.scalar(u32, init=1), cursor=reg.scalar(u32, init=0))
    for i in ptx.range_(0, N, 128):
        stage, parity = ring.advance()
        ptx.mbarrier.wait(empty[stage], parity)
        ptx.mbarrier.arrive_expect_tx(full[stage], 512)
        ptx.cp.async_.bulk.load(stages[stage], ptx.pointer(x) + i, 512, full[stage])
with ptx.if_(t < 128):
    ring, total = ptx.pipeline(3), reg.scalar(f32, init=0.0)
    for _ in ptx.range_(0, N, 128):
        stage, parity = ring.advance()
        ptx.mbarrier.wait(full[stage], parity)
        total += stages[stage, t]
        ptx.mbarrier.arrive(empty[stage])
    (ptx.pointer(out) + t).store(total)
""",
}
