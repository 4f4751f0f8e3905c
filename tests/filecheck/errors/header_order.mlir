// RUN: pyptx-opt %s --split-input-file --verify-diagnostics | filecheck %s

"ptx.module"() <{target = #ptx.target<"sm_90", "8.0">, address_size = "64"}> ({
  "ptx.header"() <{what = "target"}> : () -> ()
  "ptx.header"() <{what = "version"}> : () -> ()
}) : () -> ()

// CHECK: the header ops are target, version; their order is version, target, address_size, each once

// -----

"ptx.module"() <{target = #ptx.target<"sm_90", "8.0">, address_size = "64"}> ({
  "ptx.header"() <{what = "target"}> : () -> ()
  "ptx.header"() <{what = "address_size"}> : () -> ()
}) : () -> ()

// CHECK: the header ops are target, address_size without version, which PTX needs
