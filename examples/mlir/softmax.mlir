// Softmax of each row of an m x n matrix: one CTA of 128 threads per row, reductions over the CTA.

builtin.module {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<?x?xf32>, memref<?x?xf32>) -> (), kernel}> ({
    ^entry(%input: memref<?x?xf32>, %output: memref<?x?xf32>):
      %one = arith.constant 1 : index
      %n = memref.dim %input, %one : memref<?x?xf32>
      %row = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
      %thread = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
      %threads = "gpu.block_dim"() <{dimension = #gpu<dim x>}> : () -> index
      %lowest = arith.constant 0xFF800000 : f32
      %highest_here = scf.for %i = %thread to %n step %threads iter_args(%m = %lowest) -> (f32) {
        %v = memref.load %input[%row, %i] : memref<?x?xf32>
        %larger = arith.maximumf %m, %v : f32
        scf.yield %larger : f32
      }
      %highest = "gpu.all_reduce"(%highest_here) <{op = #gpu<all_reduce_op max>}> ({}) : (f32) -> f32
      %zero = arith.constant 0.0 : f32
      %sum_here = scf.for %i = %thread to %n step %threads iter_args(%s = %zero) -> (f32) {
        %v = memref.load %input[%row, %i] : memref<?x?xf32>
        %shifted = arith.subf %v, %highest : f32
        %e = math.exp %shifted : f32
        memref.store %e, %output[%row, %i] : memref<?x?xf32>
        %more = arith.addf %s, %e : f32
        scf.yield %more : f32
      }
      %sum = "gpu.all_reduce"(%sum_here) <{op = #gpu<all_reduce_op add>}> ({}) : (f32) -> f32
      %unit = arith.constant 1.0 : f32
      %scale = arith.divf %unit, %sum : f32
      scf.for %i = %thread to %n step %threads {
        %e = memref.load %output[%row, %i] : memref<?x?xf32>
        %p = arith.mulf %e, %scale : f32
        memref.store %p, %output[%row, %i] : memref<?x?xf32>
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "softmax", gpu.known_block_size = array<i32: 128, 1, 1>} : () -> ()
  }) : () -> ()
}
