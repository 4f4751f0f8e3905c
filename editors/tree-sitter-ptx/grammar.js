// Written by python -m pyptx.tools.highlight.treesitter: the words are those of the dialect.

module.exports = grammar({
  name: "ptx",
  extras: ($) => [/\s/, /\\\r?\n/, $.comment],
  word: ($) => $.identifier,
  rules: {
    source_file: ($) => repeat($._element),
    _element: ($) =>
      choice(
        $.block, $.label, $.opcode, $.directive, $.modifier, $.special_register, $.register, $.identifier,
        $.string, $.float, $.integer, $.operator, $.preprocessor, ";", ",", "(", ")", "[", "]", ".", ":",
      ),
    block: ($) => seq("{", repeat($._element), "}"),
    label: ($) => prec(1, seq(field("name", choice($.identifier, $.register)), ":")),
    comment: () => token(choice(/\/\/[^\n]*/, /\/\*[^*]*\*+([^/*][^*]*\*+)*\//)),
    preprocessor: () => /#[^\n]*/,
    string: () => /"[^"\n]*"/,
    float: () => token(choice(/0[fFdD][0-9a-fA-F]+/, /[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?/, /\.[0-9]+/, /[0-9]+[eE][+-]?[0-9]+/)),
    integer: () => token(choice(/0[xX][0-9a-fA-F]+U?/, /0[bB][01]+U?/, /[0-9]+U?/)),
    opcode: () => choice("abs", "activemask", "add", "addc", "alloca", "and", "applypriority", "atom", "bar", "barrier", "bfe", "bfi", "bfind", "bmsk", "bra", "brev", "brkpt", "brx", "call", "clmad", "clusterlaunchcontrol", "clz", "cnot", "copysign", "cos", "cp", "createpolicy", "cvt", "cvta", "discard", "div", "dp2a", "dp4a", "elect", "ex2", "exit", "fabric", "fence", "fma", "fns", "getctarank", "griddepcontrol", "isspacep", "istypep", "ld", "ldmatrix", "ldu", "lg2", "lop3", "mad", "mad24", "madc", "mapa", "match", "max", "mbarrier", "membar", "min", "mma", "mov", "movmatrix", "mul", "mul24", "multimem", "nanosleep", "neg", "not", "or", "pmevent", "popc", "prefetch", "prefetchu", "prmt", "rcp", "red", "redux", "rem", "ret", "rsqrt", "sad", "selp", "set", "setmaxnreg", "setp", "shf", "shfl", "shl", "shr", "sin", "slct", "spcompress", "spdecompress", "sqrt", "st", "stackrestore", "stacksave", "stmatrix", "sub", "subc", "suld", "suq", "sured", "sust", "szext", "tanh", "tcgen05", "tensormap", "testp", "tex", "tld4", "trace", "trap", "txq", "vabsdiff", "vabsdiff2", "vabsdiff4", "vadd", "vadd2", "vadd4", "vavrg2", "vavrg4", "vmad", "vmax", "vmax2", "vmax4", "vmin", "vmin2", "vmin4", "vote", "vset", "vset2", "vset4", "vshl", "vshr", "vsub", "vsub2", "vsub4", "wgmma", "wmma", "xor"),
    directive: () => choice(".abi_preserve", ".abi_preserve_control", ".address_size", ".alias", ".align", ".attribute", ".blocksareclusters", ".branchtargets", ".callprototype", ".calltargets", ".common", ".const", ".entry", ".explicitcluster", ".extern", ".file", ".func", ".global", ".language", ".loc", ".loc_intermediate", ".local", ".local_maxnreg", ".maxclusterrank", ".maxnreg", ".maxntid", ".minnctapersm", ".minperctamemory", ".noreturn", ".nv_intermediate_source_section", ".param", ".pragma", ".ptr", ".reg", ".reqnctapercluster", ".reqntid", ".samplerref", ".section", ".shared", ".surfref", ".target", ".texref", ".version", ".visible", ".weak"),
    modifier: () => token(choice(/\.[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z0-9_]+(:[0-9]+)?)*/, /\.[0-9]+[a-dpx][A-Za-z0-9_]*/)),
    special_register: () => choice("%aggr_smem_size", "%clock", "%clock64", "%clock_hi", "%cluster_ctaid", "%cluster_ctaid.w", "%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z", "%cluster_ctarank", "%cluster_nctaid", "%cluster_nctaid.w", "%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z", "%cluster_nctarank", "%clusterid", "%clusterid.w", "%clusterid.x", "%clusterid.y", "%clusterid.z", "%ctaid", "%ctaid.w", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%current_graph_exec", "%dynamic_smem_size", "%envreg0", "%envreg1", "%envreg10", "%envreg11", "%envreg12", "%envreg13", "%envreg14", "%envreg15", "%envreg16", "%envreg17", "%envreg18", "%envreg19", "%envreg2", "%envreg20", "%envreg21", "%envreg22", "%envreg23", "%envreg24", "%envreg25", "%envreg26", "%envreg27", "%envreg28", "%envreg29", "%envreg3", "%envreg30", "%envreg31", "%envreg4", "%envreg5", "%envreg6", "%envreg7", "%envreg8", "%envreg9", "%globaltimer", "%globaltimer_hi", "%globaltimer_lo", "%gridid", "%is_explicit_cluster", "%laneid", "%lanemask_eq", "%lanemask_ge", "%lanemask_gt", "%lanemask_le", "%lanemask_lt", "%locality_domain_id", "%locality_domain_supplemental_sm", "%nclusterid", "%nclusterid.w", "%nclusterid.x", "%nclusterid.y", "%nclusterid.z", "%nctaid", "%nctaid.w", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%nsmid", "%ntid", "%ntid.w", "%ntid.x", "%ntid.y", "%ntid.z", "%nwarpid", "%perctamemoryoffset", "%perctamemorysize", "%pm0", "%pm0_64", "%pm1", "%pm1_64", "%pm2", "%pm2_64", "%pm3", "%pm3_64", "%pm4", "%pm4_64", "%pm5", "%pm5_64", "%pm6", "%pm6_64", "%pm7", "%pm7_64", "%reserved_smem_offset_0", "%reserved_smem_offset_1", "%reserved_smem_offset_begin", "%reserved_smem_offset_cap", "%reserved_smem_offset_end", "%smid", "%tid", "%tid.w", "%tid.x", "%tid.y", "%tid.z", "%total_smem_size", "%warpid"),
    register: () => /%[A-Za-z0-9_$]+(\.[xyzwrgba])?/,
    identifier: () => /[A-Za-z_$\u0080-\uffff][A-Za-z0-9_$\u0080-\uffff]*/,
    operator: () => choice("+", "-", "*", "/", "%", "<", ">", "=", "!", "&", "|", "^", "~", "?", "@", "<<", ">>", "==", "!=", "<=", ">=", "&&", "||"),
  },
});
