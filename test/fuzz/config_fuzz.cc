// Any bytes as a configuration file: loading never crashes, and what loads prints to a text that loads as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxy/config/loader.h"
#include "proxy/config/print.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::config::Config> config = sluice::config::load_text(text, "fuzz");
  if (!config.ok()) {
    if (config.status().message().empty()) std::abort();
    return 0;
  }
  const std::string printed = sluice::config::print_config(*config);
  const absl::StatusOr<sluice::config::Config> again = sluice::config::load_text(printed, "printed");
  if (!again.ok() || *again != *config || sluice::config::print_config(*again) != printed) std::abort();
  return 0;
}
