#include "proxy/xds/secret_files.h"

#include <openssl/sha.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proxy/envoy/yaml_writer.h"
#include "proxy/xds/write_file.h"

namespace sluice::xds {
namespace {

using config::Node;

constexpr std::array<std::string_view, 4> kSources = {"certificate_chain", "private_key", "ocsp_staple", "trusted_ca"};

constexpr std::string_view kSuffix = ".pem";

std::string hash_of(std::string_view text) {
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), digest.data());
  return absl::BytesToHexString(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

bool is_source(const Node& tree, size_t item) {
  return tree.kind == Node::Kind::kMap && tree.items[item].kind == Node::Kind::kMap &&
         std::find(kSources.begin(), kSources.end(), tree.keys[item].text) != kSources.end();
}

}  // namespace

bool SecretFiles::has_inline_sources(const Node& tree) {
  for (size_t i = 0; i < tree.items.size(); ++i) {
    const Node& item = tree.items[i];
    if (is_source(tree, i) ? item.find("inline_string") != nullptr || item.find("inline_bytes") != nullptr
                           : has_inline_sources(item)) {
      return true;
    }
  }
  return false;
}

absl::Status SecretFiles::move_to_files(Node& tree, std::set<std::string>& files) {
  for (size_t i = 0; i < tree.items.size(); ++i) {
    Node& item = tree.items[i];
    const absl::Status moved = is_source(tree, i) ? move_source(item, files) : move_to_files(item, files);
    if (!moved.ok()) return moved;
  }
  return absl::OkStatus();
}

absl::Status SecretFiles::move_source(Node& source, std::set<std::string>& files) {
  const Node* const text = source.find("inline_string");
  const Node* const bytes = source.find("inline_bytes");
  if (text == nullptr && bytes == nullptr) return absl::OkStatus();
  std::string contents = text != nullptr ? text->text : std::string();
  if (bytes != nullptr && !absl::Base64Unescape(bytes->text, &contents)) {
    return absl::InvalidArgumentError("inline_bytes is not base64");
  }
  const std::string name = hash_of(contents) + std::string(kSuffix);
  const std::string path = absl::StrCat(folder_, "/", name);
  files.insert(name);
  if (!std::filesystem::exists(path)) {
    if (const absl::Status written = write_file(path, contents); !written.ok()) return written;
  }
  Node file = envoy::map_node();
  envoy::put(file, "filename", path);
  source = std::move(file);
  return absl::OkStatus();
}

void SecretFiles::keep_named() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kSuffix) && !named_.contains(name)) std::filesystem::remove(entry.path(), error);
  }
  named_.clear();
}

}  // namespace sluice::xds
