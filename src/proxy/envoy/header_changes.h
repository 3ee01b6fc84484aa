// Header fields that Envoy adds and removes as `request_headers` and `response_headers`.
#pragma once

#include <string_view>

#include "proxy/envoy/message.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {

/// Appends the changes in `TYPE_headers_to_add` and `TYPE_headers_to_remove` of `owner` to `changes`, a list. `type`:
/// `request` or `response`.
void add_header_changes(const Message& owner, std::string_view type, config::Node& changes);

/// Takes the value that a list of changes gives to the field content-type, if there is one, out of it.
std::string take_content_type(config::Node& changes);

}  // namespace sluice::envoy
