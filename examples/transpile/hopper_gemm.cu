// A Hopper GEMM in CUDA C++ with inline PTX: C = A B^T, with A (m, k) and B (n, k) row-major in bfloat16, sums and C (m, n)
// in float. Tiles of 64 x 64 x 64 in two stages, for one warpgroup: one thread copies by TMA, all multiply with wgmma.
//
// What nvcc 13.5 makes of it lies next to this file as hopper_gemm.ptx:
//
//     nvcc -ptx -arch=sm_90a -std=c++17 hopper_gemm.cu -o hopper_gemm.ptx
#include <stdint.h>

constexpr int TILE = 64, STAGES = 2, THREADS = 128;
constexpr int TILE_BYTES = TILE * TILE * 2;

struct alignas(64) TensorMap {
  char bytes[128];  // a CUtensorMap: boxes of 64 x 64 elements, swizzled by 128 bytes
};

struct Shared {
  char a[STAGES][TILE_BYTES];
  char b[STAGES][TILE_BYTES];
  uint64_t full[STAGES];
  uint64_t empty[STAGES];
};

__device__ uint32_t shared_address(const void* pointer) { return (uint32_t)__cvta_generic_to_shared(pointer); }

__device__ void barrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}

__device__ void barrier_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ void barrier_wait(uint64_t* barrier, int phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)), "r"(phase) : "memory");
}

__device__ void load_box(void* to, const TensorMap& map, int column, int row, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(to)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier))
      : "memory");
}

// The descriptor of a tile whose rows are 128 bytes, swizzled by 128 bytes: eight rows are 1024 bytes.
__device__ uint64_t descriptor(const char* tile) {
  return uint64_t(shared_address(tile) >> 4 & 0x3FFF) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

__device__ void multiply(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(accumulate));
}

__device__ bool elect() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.b32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected;
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, float* c, int m, int n, int k) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  bool producer = warp == 0 && elect();
  int tiles = (k + TILE - 1) / TILE;

  if (producer) {
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(&shared.full[stage], 1);
      barrier_init(&shared.empty[stage], THREADS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  auto load = [&](int tile) {
    int stage = tile % STAGES;
    barrier_expect(&shared.full[stage], 2 * TILE_BYTES);
    load_box(shared.a[stage], map_a, tile * TILE, blockIdx.x * TILE, &shared.full[stage]);
    load_box(shared.b[stage], map_b, tile * TILE, blockIdx.y * TILE, &shared.full[stage]);
  };
  if (producer)
#pragma unroll 1
    for (int tile = 0; tile < STAGES && tile < tiles; ++tile) load(tile);

  float sums[32];
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    int stage = tile % STAGES, phase = tile / STAGES & 1;
    barrier_wait(&shared.full[stage], phase);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < TILE / 16; ++step)  // 16 elements are 32 bytes
      multiply(sums, descriptor(shared.a[stage] + 32 * step), descriptor(shared.b[stage] + 32 * step), tile > 0 || step > 0);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    barrier_arrive(&shared.empty[stage]);
    if (producer && tile + STAGES < tiles) {
      barrier_wait(&shared.empty[stage], phase);
      load(tile + STAGES);
    }
    __syncwarp();
  }

  int lane = threadIdx.x % 32;
  int row = blockIdx.x * TILE + warp * 16 + lane / 4, column = blockIdx.y * TILE + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    int r = row + (i / 2 % 2) * 8, q = column + i / 4 * 8 + i % 2;
    if (r < m && q < n) c[r * n + q] = sums[i];
  }
}
