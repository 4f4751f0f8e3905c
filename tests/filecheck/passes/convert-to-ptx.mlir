// RUN: pyptx-opt %s --split-input-file --verify-diagnostics -p convert-to-ptx --print-op-generic | filecheck %s
// RUN: pyptx-opt %S/../../../examples/mlir/saxpy.mlir -p convert-to-ptx,ptx-cse,ptx-dce,ptx-assign-registers -t ptx | filecheck %s --check-prefix=PTX

"gpu.module"() <{sym_name = "m"}> ({
  "gpu.func"() <{function_type = (memref<8xf32>, f32) -> (), kernel}> ({
  ^entry(%x: memref<8xf32>, %a: f32):
    %i = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
    %v = memref.load %x[%i] : memref<8xf32>
    %r = arith.mulf %v, %a : f32
    memref.store %r, %x[%i] : memref<8xf32>
    "gpu.return"() : () -> ()
  }) {sym_name = "scale"} : () -> ()
}) : () -> ()

// CHECK:      "ptx.module"() <{target = #ptx.target<"sm_80", "7.0">
// CHECK:      "ptx.entry"()
// CHECK-SAME: sym_name = "scale"
// CHECK:      %[[P:[0-9]+]] = "ptx.ld"() <{space = "param", type = "u64"
// CHECK:      %[[B:[0-9]+]] = "ptx.cvta"(%[[P]])
// CHECK:      %[[A:[0-9]+]] = "ptx.ld"() <{space = "param", type = "f32"
// CHECK:      %[[V:[0-9]+]] = "ptx.ld"(%{{.*}}) <{space = "global", type = "f32"
// CHECK:      %[[R:[0-9]+]] = "ptx.mul"(%[[V]], %[[A]]) <{rnd = "rn"
// CHECK:      "ptx.st"(%{{.*}}, %[[R]]) <{space = "global", type = "f32"

// -----

"gpu.module"() <{sym_name = "m"}> ({
  "gpu.func"() <{function_type = (f32, memref<f32>) -> (), kernel}> ({
  ^entry(%a: f32, %out: memref<f32>):
    %r = math.cbrt %a : f32
    memref.store %r, %out[] : memref<f32>
    "gpu.return"() : () -> ()
  }) {sym_name = "k"} : () -> ()
}) : () -> ()

// CHECK: math.cbrt has no lowering to PTX; of math there are: math.absf

// PTX:      .visible .entry saxpy(
// PTX:      ld.param.f32 [[A:%f[0-9]+]], [saxpy_param_0];
// PTX:      setp.lt.u64 [[P:%p[0-9]+]],
// PTX-NEXT: @![[P]] bra [[END:\$L__BB_[0-9]+]];
// PTX:      ld.global.f32 [[X:%f[0-9]+]],
// PTX:      ld.global.f32 [[Y:%f[0-9]+]], [[[AT:%rd[0-9]+]]];
// PTX-NEXT: fma.rn.f32 [[R:%f[0-9]+]], [[A]], [[X]], [[Y]];
// PTX-NEXT: st.global.f32 [[[AT]]], [[R]];
// PTX-NEXT: [[END]]:
// PTX-NEXT: ret;
