// A race on purpose: no __syncthreads() between the store and the load of a neighbour's word.
// rotate.ptx: nvcc -lineinfo -arch=sm_80 -ptx rotate.cu
__device__ __forceinline__ unsigned neighbour(const unsigned *words, unsigned at)
{
    return words[(at + 1) & 127];
}

extern "C" __global__ void rotate(unsigned *out)
{
    __shared__ unsigned words[128];
    words[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = neighbour(words, threadIdx.x);
}
