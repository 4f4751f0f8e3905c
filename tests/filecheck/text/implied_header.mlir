// RUN: pyptx-opt %s -t ptx-no-trivia | filecheck %s

"ptx.module"() <{target = #ptx.target<"sm_90", "8.0", "debug">, address_size = "64"}> ({
  "ptx.entry"() <{head = #ptx.tokens<".entry">, sym_name = "k", directives = #ptx.tokens<>}> ({
    "ptx.ret"() <{layout = #ptx.layout<"">}> : () -> ()
  }) : () -> ()
}) : () -> ()

// CHECK:      .version 8.0
// CHECK-NEXT: .target sm_90, debug
// CHECK-NEXT: .address_size 64
// CHECK-NEXT: .entry k
