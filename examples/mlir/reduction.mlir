// Sum of n numbers: each CTA of 256 threads sums a part in shared memory, halving the threads, and adds it to the result atomically.

builtin.module {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<?xf32>, memref<1xf32>) -> (), kernel}> ({
    ^entry(%input: memref<?xf32>, %output: memref<1xf32>):
      %partial = memref.alloca() : memref<256xf32, 3>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %n = memref.dim %input, %c0 : memref<?xf32>
      %t = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
      %i = "gpu.global_id"() <{dimension = #gpu<dim x>}> : () -> index
      %block = "gpu.block_dim"() <{dimension = #gpu<dim x>}> : () -> index
      %grid = "gpu.grid_dim"() <{dimension = #gpu<dim x>}> : () -> index
      %all = arith.muli %block, %grid : index
      %zero = arith.constant 0.0 : f32
      %mine = scf.for %k = %i to %n step %all iter_args(%s = %zero) -> (f32) {
        %v = memref.load %input[%k] : memref<?xf32>
        %more = arith.addf %s, %v : f32
        scf.yield %more : f32
      }
      memref.store %mine, %partial[%t] : memref<256xf32, 3>
      "gpu.barrier"() : () -> ()
      %half = arith.constant 128 : index
      %last = scf.for %k = %c0 to %c8 step %c1 iter_args(%width = %half) -> (index) {
        %active = arith.cmpi ult, %t, %width : index
        scf.if %active {
          %other = arith.addi %t, %width : index
          %a = memref.load %partial[%t] : memref<256xf32, 3>
          %b = memref.load %partial[%other] : memref<256xf32, 3>
          %sum = arith.addf %a, %b : f32
          memref.store %sum, %partial[%t] : memref<256xf32, 3>
        }
        "gpu.barrier"() : () -> ()
        %next = arith.shrui %width, %c1 : index
        scf.yield %next : index
      }
      %first = arith.cmpi eq, %t, %c0 : index
      scf.if %first {
        %sum = memref.load %partial[%c0] : memref<256xf32, 3>
        %old = "memref.atomic_rmw"(%sum, %output, %c0) <{kind = 0 : i64}> : (f32, memref<1xf32>, index) -> f32
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "reduction", gpu.known_block_size = array<i32: 256, 1, 1>} : () -> ()
  }) : () -> ()
}
