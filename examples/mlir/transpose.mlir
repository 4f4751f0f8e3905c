// Transpose an m x n matrix in tiles of 32 x 32 through shared memory, whose rows are padded against bank conflicts.
// A CTA has 32 x 8 threads; each thread moves four elements.

builtin.module {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<?x?xf32>, memref<?x?xf32>) -> (), kernel}> ({
    ^entry(%input: memref<?x?xf32>, %output: memref<?x?xf32>):
      %tile = memref.alloca() : memref<32x33xf32, 3>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %c32 = arith.constant 32 : index
      %m = memref.dim %input, %c0 : memref<?x?xf32>
      %n = memref.dim %input, %c1 : memref<?x?xf32>
      %tx = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
      %ty = "gpu.thread_id"() <{dimension = #gpu<dim y>}> : () -> index
      %bx = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
      %by = "gpu.block_id"() <{dimension = #gpu<dim y>}> : () -> index
      %left = arith.muli %bx, %c32 : index
      %top = arith.muli %by, %c32 : index
      %column = arith.addi %left, %tx : index
      scf.for %j = %ty to %c32 step %c8 {
        %row = arith.addi %top, %j : index
        %row_inside = arith.cmpi ult, %row, %m : index
        %column_inside = arith.cmpi ult, %column, %n : index
        %inside = arith.andi %row_inside, %column_inside : i1
        scf.if %inside {
          %v = memref.load %input[%row, %column] : memref<?x?xf32>
          memref.store %v, %tile[%j, %tx] : memref<32x33xf32, 3>
        }
      }
      "gpu.barrier"() : () -> ()
      %out_column = arith.addi %top, %tx : index
      scf.for %j = %ty to %c32 step %c8 {
        %out_row = arith.addi %left, %j : index
        %row_inside = arith.cmpi ult, %out_row, %n : index
        %column_inside = arith.cmpi ult, %out_column, %m : index
        %inside = arith.andi %row_inside, %column_inside : i1
        scf.if %inside {
          %v = memref.load %tile[%tx, %j] : memref<32x33xf32, 3>
          memref.store %v, %output[%out_row, %out_column] : memref<?x?xf32>
        }
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "transpose", gpu.known_block_size = array<i32: 32, 8, 1>} : () -> ()
  }) : () -> ()
}
