#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

/// The reason phrase of a status, such as `Not Found` for 404. Empty if the status has none (RFC 9110 section 15).
std::string_view reason_phrase(uint16_t status);

}  // namespace sluice
