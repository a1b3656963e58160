# The table of limits.h: from the compiler's PTX (launch bounds), ptxas' reports, and GPUs' descriptions (tests/gpu/sm_*.json).
# One GPU for each architecture that was compiled. PTX comes first.
function number() { gsub(/[^0-9]/, "", $NF); return $NF }
FILENAME ~ /\.ptx$/ {
    if (/\.entry/) { name = $0; sub(/.*\.entry */, "", name); sub(/\(.*/, "", name); bounds[name] = 1024 }
    if (/\.maxntid/) { sub(/.*\.maxntid */, ""); split($0, n, /, */); bounds[name] = n[1] * (n[2] ? n[2] : 1) * (n[3] ? n[3] : 1) }
}
FILENAME ~ /\.log$/ {
    if (/Compiling entry function/) { split($0, word, "'"); name = word[2]; architecture = substr(word[4], 4) }
    if (/: Used [0-9]+ registers/) {
        shared = 0
        for (i = 2; i < NF; i++) { if ($i == "registers,") registers = $(i - 1); if ($i " " $(i + 1) ~ /^bytes smem/) shared = $(i - 1) }
        seen[architecture] = 1
        print "kernel", name, architecture, registers, shared, name in bounds ? bounds[name] : 1024
    }
}
FILENAME ~ /\.json$/ {
    if (FNR == 1) { architecture = FILENAME; sub(/.*sm_/, "", architecture); sub(/_.*/, "", architecture); list = "" }
    if (/"max(Grid|Block)Size"/) { list = /Grid/ ? "grid" : "block"; count = 0; next }
    if (/\]/) list = ""
    if (list) value[list, count++] = number()
    if (/"(maxThreadsPerBlock|regsPerBlock|maxSharedMemoryPerBlock|maxSharedMemoryPerBlockOptin)"/) {
        key = $1; gsub(/[":]/, "", key); value[key] = number()
    }
    if (/^}/ && architecture in seen && !(architecture in told)) {
        told[architecture] = 1
        name = FILENAME; sub(/.*\//, "", name); sub(/\.json/, "", name)
        print "card", name, architecture, value["maxThreadsPerBlock"], value["block", 0], value["block", 1], value["block", 2], \
            value["grid", 0], value["grid", 1], value["grid", 2], value["regsPerBlock"], value["maxSharedMemoryPerBlock"], \
            value["maxSharedMemoryPerBlockOptin"]
    }
}
