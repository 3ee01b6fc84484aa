#pragma once

#include <string_view>

namespace sluice {

/// The value of Date for now (RFC 9110 section 6.6.1). Good until the next call on this thread.
std::string_view http_date();

}  // namespace sluice
