# RUN: %python %s | FileCheck %s

from pyptx.diagnostics import Diagnostic, did_you_mean

hint = did_you_mean("ad", ["add", "sub", "selp"])
print(Diagnostic("error", "unknown instruction `ad`", "k.ptx", 2, 3, hint).render("  ad.s32 %r1, %r2, %r3;"))

# CHECK:      k.ptx:2:3: error: unknown instruction `ad`
# CHECK-NEXT: ad.s32 %r1, %r2, %r3;
# CHECK-NEXT: ^
# CHECK-NEXT: hint: did you mean `add`?
