// y = a * x + y, one thread per element.
//
//   pyptx-opt examples/mlir/saxpy.mlir -p convert-to-ptx,ptx-cse,ptx-dce,ptx-assign-registers -t ptx

builtin.module {
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (f32, memref<?xf32>, memref<?xf32>) -> (), kernel}> ({
    ^entry(%a: f32, %x: memref<?xf32>, %y: memref<?xf32>):
      %zero = arith.constant 0 : index
      %n = memref.dim %x, %zero : memref<?xf32>
      %i = "gpu.global_id"() <{dimension = #gpu<dim x>}> : () -> index
      %inside = arith.cmpi ult, %i, %n : index
      scf.if %inside {
        %xi = memref.load %x[%i] : memref<?xf32>
        %yi = memref.load %y[%i] : memref<?xf32>
        %r = math.fma %a, %xi, %yi : f32
        memref.store %r, %y[%i] : memref<?xf32>
      }
      "gpu.return"() : () -> ()
    }) {sym_name = "saxpy"} : () -> ()
  }) : () -> ()
}
