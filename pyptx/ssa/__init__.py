"""The builder that parser, tracer and lowering share: statements over register names in, SSA functions out."""
