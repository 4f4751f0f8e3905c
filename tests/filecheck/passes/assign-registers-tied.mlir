// RUN: pyptx-opt %s -p ptx-assign-registers -t ptx | filecheck %s

// A guarded write keeps its old value in the same register: that value is needed afterwards too, so it is copied first.
// A value that is read after its register was overwritten gets another register.

"builtin.module"() ({
  "ptx.module"() <{target = #ptx.target<"sm_80", "8.0">, address_size = "64"}> ({
    "ptx.header"() <{what = "version"}> : () -> ()
    "ptx.header"() <{what = "target"}> : () -> ()
    "ptx.entry"() <{head = #ptx.tokens<".entry">, sym_name = "tied", params = [], directives = #ptx.tokens<>}> ({
      "ptx.registers"() <{declaration = #ptx.declaration<[".reg", ".b32"], "%r", ["<", "2", ">"]>}> : () -> ()
      %old = "ptx.mov"() <{type = "u32", layout = #ptx.layout<"=, 1">}> : () -> !ptx.reg<b32>
      %p = "ptx.setp"(%old) <{cmp = "lt", type = "u32", layout = #ptx.layout<"=, $, 7">}> : (!ptx.reg<b32>) -> !ptx.reg<pred>
      %new = "ptx.add"(%old, %p, %old) <{type = "u32", layout = #ptx.layout<"=, $, 3">, guard = "@"}> : (!ptx.reg<b32>, !ptx.reg<pred>, !ptx.reg<b32>) -> !ptx.reg<b32>
      "ptx.st"(%old, %new) <{space = "shared", type = "u32", layout = #ptx.layout<"[$], $">}> : (!ptx.reg<b32>, !ptx.reg<b32>) -> ()
      %first = "ptx.mov"() <{type = "u32", layout = #ptx.layout<"=, 8">}> : () -> !ptx.reg<b32, "%r1">
      %second = "ptx.mov"() <{type = "u32", layout = #ptx.layout<"=, 9">}> : () -> !ptx.reg<b32, "%r1">
      "ptx.st"(%first, %second) <{space = "shared", type = "u32", layout = #ptx.layout<"[$], $">}> : (!ptx.reg<b32, "%r1">, !ptx.reg<b32, "%r1">) -> ()
      "ptx.ret"() <{layout = #ptx.layout<"">}> : () -> ()
    }) : () -> ()
  }) : () -> ()
}) : () -> ()

// CHECK:      	.reg .b32 %r<5>;
// CHECK-NEXT: 	.reg .pred %p<1>;
// CHECK-NEXT: 	mov.u32 %r2, 1;
// CHECK-NEXT: 	setp.lt.u32 %p0, %r2, 7;
// CHECK-NEXT: 	mov.b32 %r3, %r2;
// CHECK-NEXT: 	@%p0 add.u32 %r3, %r2, 3;
// CHECK-NEXT: 	st.shared.u32 [%r2], %r3;
// CHECK-NEXT: 	mov.u32 %r4, 8;
// CHECK-NEXT: 	mov.u32 %r1, 9;
// CHECK-NEXT: 	st.shared.u32 [%r4], %r1;
