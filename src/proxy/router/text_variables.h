#pragma once

#include <array>
#include <string_view>

#include "proxy/config/model/text_template.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// What a piece of a text says of a request; empty where it is not known. `room` is for what is no text yet. Those that
/// only the access log has say nothing here.
std::string_view text_of(const config::TextTemplate::Piece& piece, const RequestAttributes& facts,
                         std::array<char, ClientIp::kTextBytes>& room);

}  // namespace sluice
