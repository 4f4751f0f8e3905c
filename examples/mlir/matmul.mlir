// C = A * B in f32, sizes divisible by 64 (rows, columns) and 16 (depth). A CTA of 16 x 16 threads makes a tile of 64 x 64 through
// shared memory; each thread makes 4 x 4 elements with vectors of 4.

builtin.module {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>) -> (), kernel}> ({
    ^entry(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>):
      %tile_a = memref.alloca() : memref<16x68xf32, 3>
      %tile_b = memref.alloca() : memref<16x64xf32, 3>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %c16 = arith.constant 16 : index
      %c64 = arith.constant 64 : index
      %depth = memref.dim %a, %c1 : memref<?x?xf32>
      %tx = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
      %ty = "gpu.thread_id"() <{dimension = #gpu<dim y>}> : () -> index
      %bx = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
      %by = "gpu.block_id"() <{dimension = #gpu<dim y>}> : () -> index
      %left = arith.muli %bx, %c64 : index
      %top = arith.muli %by, %c64 : index
      // What this thread loads of each tile: four neighbours of a row.
      %linear0 = arith.muli %ty, %c16 : index
      %linear = arith.addi %linear0, %tx : index
      %a_row = arith.divui %linear, %c4 : index
      %a_part = arith.remui %linear, %c4 : index
      %a_column = arith.muli %a_part, %c4 : index
      %b_column = arith.muli %tx, %c4 : index
      %row_of_a = arith.addi %top, %a_row : index
      %column_of_b = arith.addi %left, %b_column : index
      %part_row = arith.muli %ty, %c4 : index
      %zero = arith.constant dense<0.0> : vector<4xf32>
      %r:4 = scf.for %k = %c0 to %depth step %c16 iter_args(%s0 = %zero, %s1 = %zero, %s2 = %zero, %s3 = %zero) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) {
        %ka = arith.addi %k, %a_column : index
        %kb = arith.addi %k, %ty : index
        %va = vector.load %a[%row_of_a, %ka] : memref<?x?xf32>, vector<4xf32>
        %vb = vector.load %b[%kb, %column_of_b] : memref<?x?xf32>, vector<4xf32>
        // A is stored transposed, so that the product reads both tiles along rows.
        %a0 = vector.extract %va[0] : f32 from vector<4xf32>
        %a1 = vector.extract %va[1] : f32 from vector<4xf32>
        %a2 = vector.extract %va[2] : f32 from vector<4xf32>
        %a3 = vector.extract %va[3] : f32 from vector<4xf32>
        %ac1 = arith.addi %a_column, %c1 : index
        %ac2 = arith.addi %a_column, %c2 : index
        %ac3 = arith.addi %a_column, %c3 : index
        memref.store %a0, %tile_a[%a_column, %a_row] : memref<16x68xf32, 3>
        memref.store %a1, %tile_a[%ac1, %a_row] : memref<16x68xf32, 3>
        memref.store %a2, %tile_a[%ac2, %a_row] : memref<16x68xf32, 3>
        memref.store %a3, %tile_a[%ac3, %a_row] : memref<16x68xf32, 3>
        vector.store %vb, %tile_b[%ty, %b_column] : memref<16x64xf32, 3>, vector<4xf32>
        "gpu.barrier"() : () -> ()
        %t:4 = scf.for %i = %c0 to %c16 step %c1 iter_args(%t0 = %s0, %t1 = %s1, %t2 = %s2, %t3 = %s3) -> (vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>) {
          %x = vector.load %tile_a[%i, %part_row] : memref<16x68xf32, 3>, vector<4xf32>
          %y = vector.load %tile_b[%i, %b_column] : memref<16x64xf32, 3>, vector<4xf32>
          %x0 = vector.extract %x[0] : f32 from vector<4xf32>
          %x1 = vector.extract %x[1] : f32 from vector<4xf32>
          %x2 = vector.extract %x[2] : f32 from vector<4xf32>
          %x3 = vector.extract %x[3] : f32 from vector<4xf32>
          %w0 = vector.broadcast %x0 : f32 to vector<4xf32>
          %w1 = vector.broadcast %x1 : f32 to vector<4xf32>
          %w2 = vector.broadcast %x2 : f32 to vector<4xf32>
          %w3 = vector.broadcast %x3 : f32 to vector<4xf32>
          %u0 = vector.fma %w0, %y, %t0 : vector<4xf32>
          %u1 = vector.fma %w1, %y, %t1 : vector<4xf32>
          %u2 = vector.fma %w2, %y, %t2 : vector<4xf32>
          %u3 = vector.fma %w3, %y, %t3 : vector<4xf32>
          scf.yield %u0, %u1, %u2, %u3 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
        }
        "gpu.barrier"() : () -> ()
        scf.yield %t#0, %t#1, %t#2, %t#3 : vector<4xf32>, vector<4xf32>, vector<4xf32>, vector<4xf32>
      }
      %row0 = arith.addi %top, %part_row : index
      %row1 = arith.addi %row0, %c1 : index
      %row2 = arith.addi %row0, %c2 : index
      %row3 = arith.addi %row0, %c3 : index
      vector.store %r#0, %c[%row0, %column_of_b] : memref<?x?xf32>, vector<4xf32>
      vector.store %r#1, %c[%row1, %column_of_b] : memref<?x?xf32>, vector<4xf32>
      vector.store %r#2, %c[%row2, %column_of_b] : memref<?x?xf32>, vector<4xf32>
      vector.store %r#3, %c[%row3, %column_of_b] : memref<?x?xf32>, vector<4xf32>
      "gpu.return"() : () -> ()
    }) {sym_name = "matmul", gpu.known_block_size = array<i32: 16, 16, 1>} : () -> ()
  }) : () -> ()
}
