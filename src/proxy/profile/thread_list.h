#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

/// The threads of this process. Errors name what the kernel refuses.
absl::StatusOr<std::vector<pid_t>> list_threads();

/// The name of a thread as profiles show it, without `;`. Empty if the thread has ended.
std::string name_of_thread(pid_t id);

}  // namespace sluice
