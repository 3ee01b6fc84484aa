#include "proxy/xds/resource_cache.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/common/proto_writer.h"
#include "proxy/common/read_file.h"
#include "proxy/xds/discovery.h"
#include "proxy/xds/proto_duration.h"
#include "proxy/xds/write_file.h"

namespace sluice::xds {
namespace {

constexpr size_t kSizeBytes = 4;
// For the tags and sizes around the texts of a resource.
constexpr size_t kFrameBytes = 128;

// Resource { version = 1, resource = 2, name = 3, ttl = 6 }, Any { type_url = 1, value = 2 }
void write_resource(ProtoWriter& out, const KindInfo& info, const Resource& resource) {
  const size_t wrapper = out.begin(2);
  out.utf8(1, resource.version);
  const size_t any = out.begin(2);
  out.text(1, absl::StrCat("type.googleapis.com/", info.type));
  out.text(2, resource.bytes);
  out.end(any);
  out.utf8(3, resource.name);
  if (resource.ttl_ms) write_duration_ms(out, 6, *resource.ttl_ms);
  out.end(wrapper);
}

std::string write_kind(const KindInfo& info, const ResourceStore::Resources& resources) {
  size_t bytes = kFrameBytes;
  for (const auto& [name, each] : resources) {
    bytes += each->bytes.size() + name.size() + each->version.size() + info.type.size() + kFrameBytes;
  }
  std::string room(bytes, '\0');
  ProtoWriter out(room);
  for (const auto& [name, each] : resources) write_resource(out, info, *each);
  out.text(4, absl::StrCat("type.googleapis.com/", info.type));
  room.resize(out.written().size());
  return room;
}

std::string size_text(size_t size) {
  std::string text;
  for (size_t i = 0; i < kSizeBytes; ++i) text += static_cast<char>(size >> (8 * i) & 0xff);
  return text;
}

// Takes the next message off `rest`; nothing if it is cut.
std::optional<std::string_view> next_message(std::string_view& rest) {
  if (rest.size() < kSizeBytes) return std::nullopt;
  size_t size = 0;
  for (size_t i = 0; i < kSizeBytes; ++i) size |= size_t{static_cast<uint8_t>(rest[i])} << (8 * i);
  rest.remove_prefix(kSizeBytes);
  if (rest.size() < size) return std::nullopt;
  const std::string_view message = rest.substr(0, size);
  rest.remove_prefix(size);
  return message;
}

}  // namespace

absl::Status save_resources(const std::string& path, const ResourceStore& store) {
  std::string contents;
  for (const KindInfo& info : kKinds) {
    const std::string message = write_kind(info, store.of(info.kind));
    absl::StrAppend(&contents, size_text(message.size()), message);
  }
  return write_file(path, contents);
}

absl::StatusOr<ResourceStore> load_resources(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return ResourceStore();
  const absl::StatusOr<std::string> contents = read_file(path);
  if (!contents.ok()) return contents.status();
  const auto broken = [&](std::string_view why) {
    return absl::DataLossError(absl::StrCat(path, ": ", "it is not used: ", why));
  };
  ResourceStore store;
  for (std::string_view rest = *contents; !rest.empty();) {
    const std::optional<std::string_view> message = next_message(rest);
    const std::optional<Response> response = message ? read_response(*message, /*is_delta=*/true) : std::nullopt;
    const std::optional<ResourceKind> kind = response ? kind_of_type(response->type) : std::nullopt;
    if (!kind) return broken("it is cut, or holds something else");
    size_t values_left = kMaxResponseValues;
    for (const SentResource& sent : response->resources) {
      absl::StatusOr<ResourcePointer> resource = read_resource(*kind, sent, {}, values_left);
      if (!resource.ok()) return broken(resource.status().message());
      store.of(*kind)[(*resource)->name] = *resource;
    }
  }
  return store;
}

}  // namespace sluice::xds
