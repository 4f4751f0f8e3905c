// RUN: pyptx-opt %s -p ptx-assign-registers -t ptx | filecheck %s

// Blank values in a loop whose two block arguments swap: one move per value, and one to break the cycle.

"builtin.module"() ({
  "ptx.module"() <{target = #ptx.target<"sm_80", "8.0">, address_size = "64"}> ({
    "ptx.header"() <{what = "version"}> : () -> ()
    "ptx.header"() <{what = "target"}> : () -> ()
    "ptx.entry"() <{head = #ptx.tokens<".visible", ".entry">, sym_name = "swap", params = [], directives = #ptx.tokens<>}> ({
      %a = "ptx.mov"() <{type = "u32", layout = #ptx.layout<"=, 1">}> : () -> !ptx.reg<b32>
      %b = "ptx.mov"() <{type = "u32", layout = #ptx.layout<"=, 2">}> : () -> !ptx.reg<b32>
      "ptx.fall"(%a, %b) [^loop] : (!ptx.reg<b32>, !ptx.reg<b32>) -> ()
    ^loop(%x: !ptx.reg<b32>, %y: !ptx.reg<b32>):
      "ptx.label"() <{label = "LOOP"}> : () -> ()
      "ptx.st"(%x, %y) <{space = "shared", type = "u32", layout = #ptx.layout<"[$], $">}> : (!ptx.reg<b32>, !ptx.reg<b32>) -> ()
      %p = "ptx.setp"(%x, %y) <{cmp = "lt", type = "u32", layout = #ptx.layout<"=, $, $">}> : (!ptx.reg<b32>, !ptx.reg<b32>) -> !ptx.reg<pred>
      "ptx.bra"(%p, %y, %x) [^loop, ^end] <{layout = #ptx.layout<"^0">, guard = "@"}> : (!ptx.reg<pred>, !ptx.reg<b32>, !ptx.reg<b32>) -> ()
    ^end:
      "ptx.ret"() <{layout = #ptx.layout<"">}> : () -> ()
    }) : () -> ()
  }) : () -> ()
}) : () -> ()

// CHECK:      .visible .entry swap()
// CHECK-NEXT: {
// CHECK-NEXT: 	.reg .b32 %r<3>;
// CHECK-NEXT: 	.reg .pred %p<1>;
// CHECK-NEXT: 	mov.u32 %r0, 1;
// CHECK-NEXT: 	mov.u32 %r1, 2;
// CHECK-NEXT: LOOP:
// CHECK-NEXT: 	st.shared.u32 [%r0], %r1;
// CHECK-NEXT: 	setp.lt.u32 %p0, %r0, %r1;
// CHECK-NEXT: 	@%p0 bra $L__edge;
// CHECK-NEXT: 	ret;
// CHECK-NEXT: $L__edge:
// CHECK-NEXT: 	mov.b32 %r2, %r1;
// CHECK-NEXT: 	mov.b32 %r1, %r0;
// CHECK-NEXT: 	mov.b32 %r0, %r2;
// CHECK-NEXT: 	bra LOOP;
// CHECK-NEXT: }
