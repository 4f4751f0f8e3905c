"""Memory that outlives a launch: addresses in arguments, arrays and structures."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx import DeviceMemory, SimulationError

# sums a linked list of {u64 next; u64 value} nodes into out[0]
LIST = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry total(.param .u64 head, .param .u64 out) {
  .reg .u64 %rd<6>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [head];
  ld.param.u64 %rd2, [out];
  mov.u64 %rd3, 0;
loop:
  setp.eq.u64 %p1, %rd1, 0;
  @%p1 bra done;
  ld.global.u64 %rd4, [%rd1+8];
  add.u64 %rd3, %rd3, %rd4;
  ld.global.u64 %rd1, [%rd1];
  bra loop;
done:
  ld.global.u64 %rd5, [%rd2];
  add.u64 %rd3, %rd3, %rd5;
  st.global.u64 [%rd2], %rd3;
  ret;
}
"""


@pytest.fixture
def total() -> pyptx.LoadedKernel:
    return pyptx.load(LIST)["total"]


def linked(memory: DeviceMemory, values: list[int]) -> int:
    """The address of the first node; each node is an allocation."""
    head = 0
    for value in reversed(values):
        head = memory.copy(np.array([head, value], np.uint64)).address
    return head


def test_pointers_in_memory_and_as_arguments(total: pyptx.LoadedKernel) -> None:
    memory = DeviceMemory()
    head = linked(memory, [3, 4, 5])
    out = memory.copy(np.zeros(1, np.uint64), name="out")
    for launch in (1, 2):  # what the first launch wrote is there in the second
        total.simulate(head, out, memory=memory, grid=1, block=1)
        assert out.array[0] == 12 * launch
    pyptx.simulate(total, np.uint64(head), int(out), memory=memory, grid=1, block=1)
    assert out.numpy()[0] == 36


def test_arrays_that_are_mapped_keep_their_address(total: pyptx.LoadedKernel) -> None:
    memory = DeviceMemory()
    host = np.array([0, 7, 0, 0], np.uint64)
    at = memory.map(host, address=0x5000_0000_0000)
    assert at.address == 0x5000_0000_0000
    total.simulate(host[:2], host[3:], memory=memory, grid=1, block=1)  # views of it, without copies
    assert host.tolist() == [0, 7, 0, 7]


def test_what_is_freed_faults(total: pyptx.LoadedKernel) -> None:
    memory = DeviceMemory()
    head = memory.copy(np.array([0, 1], np.uint64))
    out = memory.copy(np.zeros(1, np.uint64))
    memory.free(head)
    with pytest.raises(SimulationError, match=r"0x6000\w+"):
        total.simulate(head.address, out, memory=memory, grid=1, block=1)
    with pytest.raises(SimulationError, match="is not allocated in the memory="):
        total.simulate(head, out, memory=memory, grid=1, block=1)


def test_an_allocation_holds_nothing_until_it_is_written(total: pyptx.LoadedKernel) -> None:
    memory = DeviceMemory()
    out = memory.allocate(1, np.uint64, name="out")
    report = total.simulate(0, out, memory=memory, grid=1, block=1)
    assert [f.rule for f in report.findings] == ["uninitialised-global"]
    assert not total.simulate(0, out, memory=memory, grid=1, block=1).findings
    fresh = memory.allocate(1, np.uint64)
    fresh.copy_from([1])
    assert not total.simulate(0, fresh, memory=memory, grid=1, block=1).findings


def test_an_overrun_names_the_allocation(total: pyptx.LoadedKernel) -> None:
    memory = DeviceMemory()
    node = memory.copy(np.array([0], np.uint64), name="node")
    with pytest.raises(SimulationError, match=r"0 bytes past the end of node \(8 bytes"):
        total.simulate(node, 0, memory=memory, grid=1, block=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: m.map(np.zeros(4), address=0x6000_0000_0010), "is taken by DeviceBuffer"),
        (lambda m: m.map(np.zeros(4), address=-8), "is not an address of global memory"),
        (lambda m: m.map(np.zeros(4), address=0x7000_0000_0400), "is in the windows of shared memory"),
        (lambda m: m.map(np.zeros((4, 4)).T), "is not contiguous"),
        (lambda m: m.map(3), "int is not an array"),
        (lambda m: m.allocate(-1), "sizes are not negative"),
        (lambda m: next(iter(m)).copy_from(np.zeros(3)), "do not fit"),
        (lambda m: DeviceMemory().free(next(iter(m))), "is not allocated in this memory"),
    ],
)
def test_what_cannot_be(make, words: str) -> None:
    memory = DeviceMemory()
    memory.allocate(32)
    with pytest.raises(SimulationError, match=words):
        make(memory)


def test_a_memory_of_another_type(total: pyptx.LoadedKernel) -> None:
    with pytest.raises(SimulationError, match=r"memory must be a pyptx\.DeviceMemory, not 3"):
        total.simulate(0, 0, memory=3, grid=1, block=1)


def test_a_buffer_without_its_memory(total: pyptx.LoadedKernel) -> None:
    with pytest.raises(SimulationError, match="is not allocated in the memory= of this launch"):
        total.simulate(DeviceMemory().allocate(8), 0, grid=1, block=1)


def test_sizes_of_numpy_and_arrays_in_any_order() -> None:
    memory = DeviceMemory()
    assert memory.allocate(np.int64(4), np.float32).nbytes == memory.allocate([np.int32(2), 2], np.float32).nbytes == 16
    columns = np.arange(12).reshape(3, 4).T
    assert (memory.copy(columns).numpy() == columns).all()


def test_what_the_host_wrote_is_initialised(total: pyptx.LoadedKernel) -> None:
    memory = DeviceMemory()
    head, out = linked(memory, [3]), memory.allocate(1, np.uint64)
    assert [f.rule for f in total.simulate(head, out, memory=memory, grid=1, block=1).errors]  # nobody wrote it
    out = memory.allocate(1, np.uint64)
    out.array[:] = 4
    assert total.simulate(head, out, memory=memory, grid=1, block=1).findings == [] and out.array[0] == 7


def test_tables_of_pointers(total: pyptx.LoadedKernel) -> None:
    """A node is {next, value}: a table of two addresses is one whose value is an address."""
    memory = DeviceMemory()
    out, host = memory.copy(np.zeros(1, np.uint64)), np.array([0, 7], np.uint64)
    table = memory.pointers([host, 5])
    assert table.numpy().tolist() == [memory.address_of(host), 5]
    assert memory.pointers([None, out, out + 8, host[1:]]).numpy().tolist() == [
        0,
        out.address,
        out.address + 8,
        table.numpy()[0] + 8,
    ]
    total.simulate(table, out, memory=memory, grid=1, block=1)
    assert out.numpy()[0] == 5 + 7
    for wrong, words in (("x", "not str"), (DeviceMemory().allocate(8), "is not allocated in this memory")):
        with pytest.raises(SimulationError, match=words):
            memory.pointers([wrong])


def test_a_driver(total: pyptx.LoadedKernel) -> None:
    """Linked nodes and two launches on the same memory, by addresses alone."""
    driver = pyptx.SimulatedDriver(check=False)
    function = driver.load(LIST)["total"]
    out, node, head = (driver.allocate(16) for _ in range(3))
    host = np.array([node, 30], np.uint64)
    driver.write(node, np.array([0, 4], np.uint64))
    driver.write(head, host.tobytes())
    driver.fill(out, 0, 16)
    driver.launch(function, (1, 1, 1), (1, 1, 1), 0, [head, out])
    driver.launch(function, 1, 1, 0, np.array([head, out], np.uint64).tobytes())  # the buffer of all parameters
    assert np.frombuffer(driver.read(out, 8), np.uint64)[0] == 2 * 34
    at = host.__array_interface__["data"][0]
    assert driver.map(at, 16, name="host") == at  # memory of this process, at its own address
    host[0] = 0
    driver.launch(function, 1, 1, 0, [at.to_bytes(8, "little"), out])
    assert int.from_bytes(driver.read(out, 8), "little") == 2 * 34 + 30
    assert [r.entry for r in driver.launches] == ["total"] * 3
    driver.free(node)
    for call, words in (
        (lambda: driver.free(node), "is not the address of an allocation"),
        (lambda: driver.free(out + 8), "is not the address of an allocation"),
        (lambda: driver.read(out, 17), "17 bytes from there are not in one allocation"),
        (lambda: driver.launch(function, 1, 1, 0, [head, out]), "is out of bounds"),
        (
            lambda: driver.launch(function, 1, 1, 0, bytes(15)),
            "the parameters of total have 16 bytes, and 15 were given",
        ),
        (lambda: driver.launch(function, 1, 1, 0, [bytes(4), out]), "has 8 bytes, and 4 were given"),
        (lambda: driver.map(at, 0), "the size is positive"),
    ):
        with pytest.raises(SimulationError, match=words):
            call()
    with pytest.raises(TypeError, match="SimulatedDriver has no option 'grid'"):
        pyptx.SimulatedDriver(grid=1)


def test_what_is_not_a_buffer_is_not_freed(total: pyptx.LoadedKernel) -> None:
    memory = DeviceMemory()
    out = memory.copy(np.zeros(1, np.uint64))
    for wrong in (5, None, out.address, np.zeros(1)):
        with pytest.raises(SimulationError, match="free takes what allocate, copy or map returned"):
            memory.free(wrong)  # pyright: ignore[reportArgumentType]
    memory.free(out)
    with pytest.raises(SimulationError, match="it is freed, or of another one"):
        memory.free(out)
    with pytest.raises(SimulationError, match=r"allocation 0 .8 bytes at 0x.* was there, and is freed"):
        total.simulate(0, out.address, grid=1, block=1, memory=memory)


@pytest.mark.parametrize("dtype", ["nosuch", object, 5, "bfloat17", "V0"])
def test_elements_without_a_fixed_size(dtype: object) -> None:
    with pytest.raises(SimulationError, match="not a type of elements of a fixed size"):
        DeviceMemory().allocate(4, dtype)


def test_more_memory_than_there_is() -> None:
    with pytest.raises(SimulationError, match="no memory for it"):
        DeviceMemory().allocate(1 << 60)


def test_an_error_has_no_frames_from_inside(total: pyptx.LoadedKernel) -> None:
    for call in (
        lambda: total.simulate(8, np.zeros(1, np.uint64), grid=1, block=1),
        lambda: pyptx.simulate(total, 8, np.zeros(1, np.uint64), grid=1, block=1),
    ):
        with pytest.raises(SimulationError, match="out of bounds") as raised:
            call()
        inside = [t for t in raised.traceback if "/pyptx/" in str(t.path) and "/tests/" not in str(t.path)]
        assert len(inside) <= 2


ILLEGAL = """.version 8.5
.target sm_90a
.visible .entry k()
{
	.reg .b32 %r<4>;
	rex;
	mov.u32 %r9, 1;
	add.s32 %r1, %r2;
	ret;
}
"""


def test_load_lists_every_error() -> None:
    with pytest.raises(pyptx.PTXError) as raised:
        pyptx.load(ILLEGAL)
    assert [d.line for d in raised.value.diagnostics] == [6, 7, 8]
    assert [d.message for d in raised.value.diagnostics] == [d.message for d in pyptx.diagnose(ILLEGAL)]
