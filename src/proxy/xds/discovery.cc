#include "proxy/xds/discovery.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "proxy/common/proto_reader.h"
#include "proxy/common/proto_writer.h"
#include "proxy/xds/proto_duration.h"
#include "proxy/xds/write_message.h"
#include "sluice/version.h"

namespace sluice::xds {
namespace {

using config::Node;

void write_text(ProtoWriter& out, uint32_t field, std::string_view text) {
  if (!text.empty()) out.utf8(field, text);
}

void write_struct(ProtoWriter& out, const Node& map);

// Value { number_value = 2, string_value = 3, bool_value = 4, struct_value = 5, list_value = 6 }
void write_value(ProtoWriter& out, const Node& node) {
  double number = 0;
  switch (node.kind) {
    case Node::Kind::kNull:
      return out.number(1, 0);
    case Node::Kind::kScalar:
      if (node.text == "true" || node.text == "false") return out.number(4, node.text == "true" ? 1 : 0);
      if (absl::SimpleAtod(node.text, &number)) return out.fixed64(2, std::bit_cast<uint64_t>(number));
      return out.utf8(3, node.text);
    case Node::Kind::kMap: {
      const size_t map = out.begin(5);
      write_struct(out, node);
      return out.end(map);
    }
    case Node::Kind::kList: {
      const size_t list = out.begin(6);
      for (const Node& each : node.items) {
        const size_t value = out.begin(1);
        write_value(out, each);
        out.end(value);
      }
      return out.end(list);
    }
  }
}

// Struct { fields = 1 }
void write_struct(ProtoWriter& out, const Node& map) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const size_t entry = out.begin(1);
    out.utf8(1, map.keys[i].text);
    const size_t value = out.begin(2);
    write_value(out, map.items[i]);
    out.end(value);
    out.end(entry);
  }
}

// google.rpc.Status { code = 1, message = 2 }
void write_error(ProtoWriter& out, uint32_t field, std::string_view error) {
  constexpr uint64_t kInvalidArgument = 3;
  if (error.empty()) return;
  const size_t status = out.begin(field);
  out.number(1, kInvalidArgument);
  out.utf8(2, error);
  out.end(status);
}

void write_type(ProtoWriter& out, uint32_t field, std::string_view type) {
  out.text(field, std::string("type.googleapis.com/").append(type));
}

// Any { type_url = 1, value = 2 }
bool read_any(std::string_view bytes, SentResource& resource) {
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) resource.type = in.bytes();
    if (in.is(2, ProtoWire::kBytes)) resource.bytes = in.bytes();
  }
  return in.ok();
}

// Resource { version = 1, resource = 2, name = 3, ttl = 6 }
bool read_resource(std::string_view bytes, SentResource& resource) {
  resource.is_present = false;
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) resource.version = in.bytes();
    if (in.is(3, ProtoWire::kBytes)) resource.name = in.bytes();
    if (in.is(6, ProtoWire::kBytes)) {
      resource.ttl_ms = read_duration_ms(in.bytes());
      resource.has_bad_ttl = !resource.ttl_ms;
    }
    if (!in.is(2, ProtoWire::kBytes)) continue;
    resource.is_present = true;
    if (!read_any(in.bytes(), resource)) return false;
  }
  return in.ok();
}

bool read_sent(std::string_view bytes, bool is_delta, SentResource& resource) {
  if (is_delta) return read_resource(bytes, resource);
  if (!read_any(bytes, resource)) return false;
  // The state of the world has resources with a name and a time to live in this form.
  if (!resource.type.ends_with("/envoy.service.discovery.v3.Resource")) return true;
  const std::string_view wrapped = std::exchange(resource, {}).bytes;
  return read_resource(wrapped, resource);
}

}  // namespace

// Node { id = 1, cluster = 2, metadata = 3, locality = 4, user_agent_name = 6, user_agent_version = 7,
// client_features = 10 },
// Locality { region = 1, zone = 2, sub_zone = 3 }
std::string write_node(const NodeIdentity& node, const std::vector<std::string_view>& features) {
  return write_message([&](ProtoWriter& out) {
    write_text(out, 1, node.id);
    write_text(out, 2, node.cluster);
    if (node.metadata.kind == Node::Kind::kMap) {
      const size_t metadata = out.begin(3);
      write_struct(out, node.metadata);
      out.end(metadata);
    }
    if (!node.region.empty() || !node.zone.empty() || !node.sub_zone.empty()) {
      const size_t locality = out.begin(4);
      write_text(out, 1, node.region);
      write_text(out, 2, node.zone);
      write_text(out, 3, node.sub_zone);
      out.end(locality);
    }
    out.text(6, "sluice");
    out.text(7, SLUICE_VERSION_STRING);
    for (const std::string_view feature : features) out.text(10, feature);
  });
}

// DiscoveryRequest { version_info = 1, node = 2, resource_names = 3, type_url = 4, response_nonce = 5,
// error_detail = 6 }
std::string write_request(const StateRequest& request) {
  return write_message([&](ProtoWriter& out) {
    write_text(out, 1, request.version);
    if (!request.node.empty()) out.text(2, request.node);
    for (const std::string_view name : request.names) out.utf8(3, name);
    write_type(out, 4, request.type);
    write_text(out, 5, request.nonce);
    write_error(out, 6, request.error);
  });
}

// DeltaDiscoveryRequest { node = 1, type_url = 2, resource_names_subscribe = 3, resource_names_unsubscribe = 4,
// initial_resource_versions = 5, response_nonce = 6, error_detail = 7 }
std::string write_request(const DeltaRequest& request) {
  return write_message([&](ProtoWriter& out) {
    if (!request.node.empty()) out.text(1, request.node);
    write_type(out, 2, request.type);
    for (const std::string_view name : request.subscribe) out.utf8(3, name);
    for (const std::string_view name : request.unsubscribe) out.utf8(4, name);
    for (const auto& [name, version] : request.known) {
      const size_t entry = out.begin(5);
      out.utf8(1, name);
      out.utf8(2, version);
      out.end(entry);
    }
    write_text(out, 6, request.nonce);
    write_error(out, 7, request.error);
  });
}

// DiscoveryResponse { version_info = 1, resources = 2, type_url = 4, nonce = 5 },
// DeltaDiscoveryResponse { system_version_info = 1, resources = 2, type_url = 4, nonce = 5, removed_resources = 6 }
std::optional<Response> read_response(std::string_view message, bool is_delta) {
  Response response;
  ProtoReader in(message);
  while (in.next()) {
    if (in.wire() != ProtoWire::kBytes) continue;
    if (in.field() == 1) response.version = in.bytes();
    if (in.field() == 2 && !read_sent(in.bytes(), is_delta, response.resources.emplace_back())) return std::nullopt;
    if (in.field() == 4) response.type = in.bytes();
    if (in.field() == 5) response.nonce = in.bytes();
    if (is_delta && in.field() == 6) response.removed.push_back(in.bytes());
  }
  return in.ok() ? std::optional(std::move(response)) : std::nullopt;
}

}  // namespace sluice::xds
