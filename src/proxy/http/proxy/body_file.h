#pragma once

#include <algorithm>

#include "net/helper_threads.h"
#include "proxy/config/model/config.h"
#include "sluice/file_pool.h"

namespace sluice {

/// Whether some route buffers bodies.
inline bool keeps_bodies(const config::Http& http) {
  return std::any_of(http.routes.begin(), http.routes.end(),
                     [](const auto& route) { return route.buffer.has_value(); });
}

/// The buffered bodies of all workers: the file, and the threads that write to it.
struct BodyFile {
  explicit BodyFile(const config::BodyFile& rules)
      : pool({.directory = rules.directory, .limit_bytes = rules.limit.bytes}) {}

  FilePool pool;  ///< Outlives the bodies in it.
  HelperThreads writers{2};
};

}  // namespace sluice
