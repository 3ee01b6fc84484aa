#include "proxy/http/proxy/agreement_state.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/node_hash_set.h"

namespace sluice {

namespace {

// The names of TLS versions and ciphers live as long as the thread. There are few.
std::string_view lasting(std::string_view name) {
  thread_local absl::node_hash_set<std::string> names;
  return *names.emplace(name).first;
}

}  // namespace

void write_agreement(StateWriter& out, const Agreement* agreed) {
  out.u8(agreed != nullptr);
  if (!agreed) return;
  for (const std::string_view text : {agreed->version, agreed->cipher, std::string_view(agreed->server_name),
                                      std::string_view(agreed->alpn), std::string_view(agreed->common_name)}) {
    out.text(text);
  }
  out.u8(agreed->certified);
  out.u8(agreed->resumed);
  out.u32(static_cast<uint32_t>(agreed->peer_names.size()));
  for (const std::string& name : agreed->peer_names) out.text(name);
}

std::unique_ptr<Agreement> read_agreement(StateReader& in) {
  if (in.u8() == 0) return nullptr;
  auto agreed = std::make_unique<Agreement>();
  agreed->version = lasting(in.text());
  agreed->cipher = lasting(in.text());
  agreed->server_name = in.text();
  agreed->alpn = in.text();
  agreed->common_name = in.text();
  agreed->certified = in.u8() != 0;
  agreed->resumed = in.u8() != 0;
  for (uint32_t left = in.u32(); left > 0 && in.ok(); --left) agreed->peer_names.emplace_back(in.text());
  return agreed;
}

}  // namespace sluice
