// RUN: pyptx-opt %s --split-input-file --verify-diagnostics | filecheck %s

"ptx.module"() <{target = #ptx.target<"sm_90", "8.0">, address_size = "64"}> ({
  "ptx.entry"() <{head = #ptx.tokens<".entry">, sym_name = "k", directives = #ptx.tokens<>}> ({
    %0 = "ptx.undef"() : () -> !ptx.reg<b64>
    %1 = "ptx.add"(%0) <{type = "s32", layout = #ptx.layout<"=, $, 4">}> : (!ptx.reg<b64>) -> !ptx.reg<b32>
    "ptx.ret"() <{layout = #ptx.layout<"">}> : () -> ()
  }) : () -> ()
}) : () -> ()

// CHECK: operand a must be .s32, and the register is .b64 (syntax: add

// -----

"ptx.module"() <{target = #ptx.target<"sm_80", "7.8">, address_size = "64"}> ({
  "ptx.entry"() <{head = #ptx.tokens<".entry">, sym_name = "k", directives = #ptx.tokens<>}> ({
    %0 = "ptx.undef"() : () -> !ptx.reg<b32>
    %1 = "ptx.add"(%0) <{type = "u16x2", layout = #ptx.layout<"=, $, $">}> : (!ptx.reg<b32>) -> !ptx.reg<b32>
    "ptx.ret"() <{layout = #ptx.layout<"">}> : () -> ()
  }) : () -> ()
}) : () -> ()

// CHECK: the op needs 2 operands and has 1

// -----

"ptx.module"() <{target = #ptx.target<"sm_80", "7.8">, address_size = "64"}> ({
  "ptx.entry"() <{head = #ptx.tokens<".entry">, sym_name = "k", directives = #ptx.tokens<>}> ({
    %0 = "ptx.undef"() : () -> !ptx.reg<b32>
    "ptx.ret"(%0) <{layout = #ptx.layout<"">, guard = "@"}> : (!ptx.reg<b32>) -> ()
  }) : () -> ()
}) : () -> ()

// CHECK: the guard must be a .pred register
