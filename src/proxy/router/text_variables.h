#pragma once

#include <array>
#include <string_view>

#include "proxy/config/model/text_template.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// Returns the text of one piece of a template for a request; empty if it is unknown, or if the variable exists only in
/// the access log. `room` is for values that must be formatted.
std::string_view text_of(const config::TextTemplate::Piece& piece, const RequestAttributes& facts,
                         std::array<char, ClientIp::kTextBytes>& room);

}  // namespace sluice
