// The values of a record by the variables of formats and conditions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/access_log/access_line.h"
#include "proxy/config/model/text_template.h"
#include "proxy/http/message/client_ip.h"

namespace sluice {

/// The value of a variable that is a number (config::is_number); times are in microseconds. Not set if it is unknown.
std::optional<uint64_t> number_of_record(config::TextVariable variable, const AccessRecord& record);

/// The value of a variable that is a text, apart from response_header; empty if it is unknown. `room` is for values
/// that must be formatted.
std::string_view text_of_record(const config::TextTemplate::Piece& piece, const AccessRecord& record,
                                std::array<char, ClientIp::kTextBytes>& room);

}  // namespace sluice
