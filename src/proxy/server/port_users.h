#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

/// Whether a TCP socket of this network namespace listens on `port` at an address of `family` (AF_INET or AF_INET6),
/// apart from those whose inodes are in `own`. By sock_diag(7); nullopt if the kernel does not report it.
std::optional<bool> others_listen(int family, uint16_t port, std::span<const ino_t> own);

}  // namespace sluice
