// A Hopper GEMM in CuTe: C = A B^T, with A (m, k) and B (n, k) row-major in bfloat16, sums and C (m, n) in float.
// Tiles of 64 x 64 x 64 in two stages, for one warpgroup: one thread copies by TMA, all multiply with wgmma.
//
// What nvcc 13.0 makes of it lies beside this file as cute_gemm.ptx:
//
//     nvcc -ptx -arch=sm_90a -std=c++20 --expt-relaxed-constexpr -I cutlass/include cute_gemm.cu -o cute_gemm.ptx
//
// It holds inline functions of CUTLASS 4.2 (BSD-3-Clause, LICENSE.cutlass).
#include <cute/tensor.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;
using Element = cutlass::bfloat16_t;
using TileM = _64;
using TileN = _64;
using TileK = _64;
using Stages = _2;

using Atom = GMMA::Layout_K_SW128_Atom<Element>;
using LayoutA = decltype(tile_to_shape(Atom{}, Shape<TileM, TileK, Stages>{}));
using LayoutB = decltype(tile_to_shape(Atom{}, Shape<TileN, TileK, Stages>{}));
using Multiply = decltype(make_tiled_mma(SM90_64x64x16_F32BF16BF16_SS<GMMA::Major::K, GMMA::Major::K>{}));

struct Shared {
  alignas(128) ArrayEngine<Element, cosize_v<LayoutA>> a;
  alignas(128) ArrayEngine<Element, cosize_v<LayoutB>> b;
  uint64_t full[Stages::value];
  uint64_t empty[Stages::value];
};

using Matrix = decltype(make_tensor(make_gmem_ptr<Element>(nullptr), Shape<int, int>{}, Stride<int, _1>{}));
using CopyA = decltype(make_tma_atom(SM90_TMA_LOAD{}, Matrix{}, LayoutA{}(_, _, 0), Shape<TileM, TileK>{}));
using CopyB = decltype(make_tma_atom(SM90_TMA_LOAD{}, Matrix{}, LayoutB{}(_, _, 0), Shape<TileN, TileK>{}));

extern "C" __global__ void __launch_bounds__(128)
matmul(CUTE_GRID_CONSTANT CopyA const copy_a, CUTE_GRID_CONSTANT CopyB const copy_b, float* c, int m, int n, int k) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Tensor sA = make_tensor(make_smem_ptr(shared.a.begin()), LayoutA{});
  Tensor sB = make_tensor(make_smem_ptr(shared.b.begin()), LayoutB{});

  Tensor mA = copy_a.get_tma_tensor(make_shape(m, k));
  Tensor mB = copy_b.get_tma_tensor(make_shape(n, k));
  Tensor mC = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));
  Tensor gA = local_tile(mA, Shape<TileM, TileK>{}, make_coord(blockIdx.x, _));
  Tensor gB = local_tile(mB, Shape<TileN, TileK>{}, make_coord(blockIdx.y, _));
  Tensor gC = local_tile(mC, Shape<TileM, TileN>{}, make_coord(blockIdx.x, blockIdx.y));

  auto [tAgA, tAsA] = tma_partition(copy_a, Int<0>{}, Layout<_1>{}, group_modes<0, 2>(sA), group_modes<0, 2>(gA));
  auto [tBgB, tBsB] = tma_partition(copy_b, Int<0>{}, Layout<_1>{}, group_modes<0, 2>(sB), group_modes<0, 2>(gB));
  constexpr int bytes = sizeof(Element) * (size<0>(decltype(tAsA){}) + size<0>(decltype(tBsB){}));

  using Full = cutlass::arch::ClusterTransactionBarrier;
  using Empty = cutlass::arch::ClusterBarrier;
  int warp = cutlass::canonical_warp_idx_sync();
  bool producer = warp == 0 && elect_one_sync();
  int tiles = size<1>(tAgA);

  if (producer) {
    CUTE_UNROLL
    for (int stage = 0; stage < Stages::value; ++stage) {
      Full::init(&shared.full[stage], 1);
      Empty::init(&shared.empty[stage], 128);
    }
  }
  cutlass::arch::fence_barrier_init();
  __syncthreads();

  auto load = [&](int tile) {
    int stage = tile % Stages::value;
    Full::arrive_and_expect_tx(&shared.full[stage], bytes);
    copy(copy_a.with(shared.full[stage]), tAgA(_, tile), tAsA(_, stage));
    copy(copy_b.with(shared.full[stage]), tBgB(_, tile), tBsB(_, stage));
  };
  if (producer) {
    for (int tile = 0; tile < Stages::value && tile < tiles; ++tile) load(tile);
  }

  Multiply multiply;
  auto thread = multiply.get_thread_slice(threadIdx.x);
  Tensor tCrA = thread.make_fragment_A(thread.partition_A(sA));
  Tensor tCrB = thread.make_fragment_B(thread.partition_B(sB));
  Tensor tCgC = thread.partition_C(gC);
  Tensor sums = thread.make_fragment_C(tCgC);
  clear(sums);

  CUTE_NO_UNROLL
  for (int tile = 0; tile < tiles; ++tile) {
    int stage = tile % Stages::value;
    int phase = tile / Stages::value & 1;
    Full::wait(&shared.full[stage], phase);
    warpgroup_arrive();
    gemm(multiply, tCrA(_, _, _, stage), tCrB(_, _, _, stage), sums);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    Empty::arrive(&shared.empty[stage]);
    if (producer && tile + Stages::value < tiles) {
      Empty::wait(&shared.empty[stage], phase);
      load(tile + Stages::value);
    }
  }

  Tensor places = thread.partition_C(local_tile(make_identity_tensor(make_shape(m, n)), Shape<TileM, TileN>{},
                                                make_coord(blockIdx.x, blockIdx.y)));
  CUTE_UNROLL
  for (int i = 0; i < size(sums); ++i) {
    if (elem_less(places(i), make_shape(m, n))) tCgC(i) = sums(i);
  }
}
