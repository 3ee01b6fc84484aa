#include "alts_like/handshaker_negotiation.h"

#include <handshaker.pb.h>
#include <openssl/mem.h>

#include <algorithm>
#include <span>
#include <utility>

#include "alts_like/handshaker_text.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// The only RPC version that gRPC uses within ALTS.
constexpr uint32_t kRpcMajor = 2;
constexpr uint32_t kRpcMinor = 1;

void describe(const AltsOptions::Endpoint& from, grpc::gcp::Endpoint* (*to)(void*), void* message) {
  if (from.ip.empty()) return;
  grpc::gcp::Endpoint& endpoint = *to(message);
  endpoint.set_ip_address(from.ip);
  endpoint.set_port(from.port);
  endpoint.set_protocol(grpc::gcp::TCP);
}

// Wipes the keys in a response at the end of the scope.
struct WipeKeyData {
  explicit WipeKeyData(grpc::gcp::HandshakerResp& of) : response(of) {}
  ~WipeKeyData() {
    if (!response.has_result()) return;
    std::string& keys = *response.mutable_result()->mutable_key_data();
    OPENSSL_cleanse(keys.data(), keys.size());
  }
  WipeKeyData(const WipeKeyData&) = delete;
  WipeKeyData& operator=(const WipeKeyData&) = delete;

  grpc::gcp::HandshakerResp& response;
};

// Fills in the fields that both start messages share.
template <typename Start>
void begin(const AltsOptions& options, Start& start) {
  for (const std::string& name : options.application_protocols) start.add_application_protocols(name);
  describe(options.local, [](void* m) { return static_cast<Start*>(m)->mutable_local_endpoint(); }, &start);
  describe(options.remote, [](void* m) { return static_cast<Start*>(m)->mutable_remote_endpoint(); }, &start);
  for (auto* version : {start.mutable_rpc_versions()->mutable_max_rpc_version(),
                        start.mutable_rpc_versions()->mutable_min_rpc_version()}) {
    version->set_major(kRpcMajor);
    version->set_minor(kRpcMinor);
  }
  start.set_max_frame_size(static_cast<uint32_t>(options.max_frame_bytes));
}

void begin_client(const AltsOptions& options, grpc::gcp::StartClientHandshakeReq& start) {
  begin(options, start);
  start.set_handshake_security_protocol(grpc::gcp::ALTS);
  for (const AltsProtocol protocol : options.record_protocols) {
    start.add_record_protocols(std::string(alts_protocol_name(protocol)));
  }
  for (const std::string& account : options.target_service_accounts) {
    start.add_target_identities()->set_service_account(account);
  }
  if (!options.target_name.empty()) start.set_target_name(options.target_name);
}

void begin_server(const AltsOptions& options, grpc::gcp::StartServerHandshakeReq& start) {
  begin(options, start);
  grpc::gcp::ServerHandshakeParameters& parameters = (*start.mutable_handshake_parameters())[grpc::gcp::ALTS];
  for (const AltsProtocol protocol : options.record_protocols) {
    parameters.add_record_protocols(std::string(alts_protocol_name(protocol)));
  }
}

const std::string& name_of(const grpc::gcp::Identity& identity) {
  return identity.has_hostname() ? identity.hostname() : identity.service_account();
}

bool is_name(const std::string& text) { return text.size() <= AltsNegotiation::kMaxNameBytes && is_printable(text); }

// Whether there is a version that both sides support.
bool compatible(const grpc::gcp::RpcProtocolVersions& peer) {
  const std::pair ours(kRpcMajor, kRpcMinor);
  const std::pair max(peer.max_rpc_version().major(), peer.max_rpc_version().minor());
  const std::pair min(peer.min_rpc_version().major(), peer.min_rpc_version().minor());
  return std::min(ours, max) >= std::max(ours, min);
}

std::string in_quotes(std::string_view text) { return '"' + printable(text, kMaxDetailBytes) + '"'; }

}  // namespace

AltsResult::~AltsResult() { OPENSSL_cleanse(key_data.data(), key_data.size()); }

AltsNegotiation::AltsNegotiation(AltsOptions options) : options_(std::move(options)) {
  SLUICE_CHECK(!options_.application_protocols.empty() && !options_.record_protocols.empty());
  options_.max_frame_bytes =
      std::clamp(options_.max_frame_bytes, AltsState::kMinAgreedFrameBytes, AltsState::kMaxFrameBytes);
}

void AltsNegotiation::receive(ChunkPool& pool, Buffer&& bytes) {
  if (status_ != Status::kInProgress) return;
  pending_.append(std::move(bytes));
  pending_.compact(pool);
  if (pending_.size() > kMaxPendingBytes) {
    fail("the peer sent more than " + std::to_string(kMaxPendingBytes) + " bytes before the handshake was done");
  }
}

std::optional<std::string> AltsNegotiation::request(uint32_t latency_ms) {
  const bool first = requests_ == 0;
  const bool due = (first && options_.is_client) || pending_.size() > seen_;
  if (status_ != Status::kInProgress || waiting_ || !due) return std::nullopt;
  if (requests_ == kMaxRequests) {
    fail("the peer's handshake came in more than " + std::to_string(kMaxRequests) + " pieces");
    return std::nullopt;
  }
  ++requests_;
  waiting_ = true;
  grpc::gcp::HandshakerReq request;
  std::string* in_bytes = nullptr;
  if (!first) {
    request.mutable_next()->set_network_latency_ms(latency_ms);
    in_bytes = request.mutable_next()->mutable_in_bytes();
  } else if (options_.is_client) {
    begin_client(options_, *request.mutable_client_start());
  } else {
    begin_server(options_, *request.mutable_server_start());
    in_bytes = request.mutable_server_start()->mutable_in_bytes();
  }
  // client_start has no in_bytes, so bytes that the server has already sent go into the next request.
  offered_ = in_bytes ? std::min(pending_.size(), kMaxInBytes) : 0;
  if (in_bytes) {
    in_bytes->resize(offered_);
    pending_.copy_out(0, std::as_writable_bytes(std::span(*in_bytes)));
  }
  return request.SerializeAsString();
}

AltsNegotiation::Status AltsNegotiation::digest(std::string_view response, std::string& out_frames) {
  if (status_ != Status::kInProgress) return status_;
  if (!waiting_) return fail("the handshaker service sent a response without a request");
  waiting_ = false;
  grpc::gcp::HandshakerResp message;
  const WipeKeyData wipe{message};
  if (!message.ParseFromArray(response.data(), static_cast<int>(response.size()))) {
    return fail("the handshaker service sent a malformed HandshakerResp");
  }
  out_bytes_ += message.out_frames().size();
  if (out_bytes_ > kMaxOutBytes) {
    return fail("the handshaker service sent more than " + std::to_string(kMaxOutBytes) + " bytes for the peer");
  }
  out_frames += message.out_frames();
  if (message.status().code() != 0) {
    return fail("the handshaker service refused: " + grpc_code_name(message.status().code()) + ": " +
                printable(message.status().details(), kMaxDetailBytes));
  }
  if (message.bytes_consumed() > offered_) {
    return fail("the handshaker service consumed " + std::to_string(message.bytes_consumed()) + " bytes of " +
                std::to_string(offered_));
  }
  pending_.trim_front(message.bytes_consumed());
  seen_ = offered_ - message.bytes_consumed();
  if (message.has_result()) return finish(message.result());
  if (seen_ == kMaxInBytes) {
    return fail("the handshaker service consumed none of " + std::to_string(kMaxInBytes) + " bytes");
  }
  return status_;
}

// Makes the checks of gRPC's core, and checks what core takes for granted. One check is omitted: the local identity,
// which nothing needs, may be absent, as in the responses of grpc-go's fake service.
AltsNegotiation::Status AltsNegotiation::finish(const grpc::gcp::HandshakerResult& result) {
  const auto& offered = options_.application_protocols;
  if (std::find(offered.begin(), offered.end(), result.application_protocol()) == offered.end()) {
    return fail("the handshaker service chose the application protocol " + in_quotes(result.application_protocol()) +
                ", which was not offered");
  }
  const auto& protocols = options_.record_protocols;
  const auto protocol = std::find_if(protocols.begin(), protocols.end(),
                                     [&](AltsProtocol p) { return alts_protocol_name(p) == result.record_protocol(); });
  if (protocol == protocols.end()) {
    return fail("the handshaker service chose the record protocol " + in_quotes(result.record_protocol()) +
                ", which was not offered");
  }
  const size_t key_bytes = AltsKeys::secret_bytes(*protocol);
  if (result.key_data().size() < key_bytes) {
    return fail("the handshaker service gave " + std::to_string(result.key_data().size()) + " bytes of keys, and " +
                std::to_string(key_bytes) + " are needed");
  }
  const std::string& peer = name_of(result.peer_identity());
  if (peer.empty()) return fail("the handshaker service did not identify the peer");
  const std::string& local = name_of(result.local_identity());
  if (!is_name(peer) || !is_name(local)) {
    return fail("the handshaker service gave a malformed name: " + in_quotes(peer));
  }
  const auto& targets = options_.target_service_accounts;
  const std::string& account = result.peer_identity().service_account();
  if (!targets.empty() && std::find(targets.begin(), targets.end(), account) == targets.end()) {
    return fail("the peer is " + in_quotes(peer) + ", none of target_identities");
  }
  if (!result.has_peer_rpc_versions()) return fail("the handshaker service did not send the peer's RPC versions");
  if (!compatible(result.peer_rpc_versions())) return fail("the peer's RPC versions do not include 2.1");

  result_.record_protocol = *protocol;
  result_.key_data.assign(result.key_data().begin(), result.key_data().begin() + static_cast<ptrdiff_t>(key_bytes));
  result_.application_protocol = result.application_protocol();
  result_.peer_identity = peer;
  result_.local_identity = local;
  const size_t peer_frame_bytes = result.max_frame_size();
  result_.max_frame_bytes =
      std::max(std::min(peer_frame_bytes, options_.max_frame_bytes), AltsState::kMinAgreedFrameBytes);
  result_.leftover = std::move(pending_);
  return status_ = Status::kDone;
}

AltsNegotiation::Status AltsNegotiation::fail(std::string error) {
  error_ = std::move(error);
  pending_.clear();
  return status_ = Status::kFailed;
}

AltsResult AltsNegotiation::take_result() {
  SLUICE_CHECK(status_ == Status::kDone);
  return std::exchange(result_, AltsResult());
}

}  // namespace sluice
