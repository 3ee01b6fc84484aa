#pragma once

#include <string_view>

namespace sluice {

/// The value of a Date field for the current time (RFC 9110 section 6.6.1). Valid until the next call on this thread.
std::string_view http_date();

}  // namespace sluice
