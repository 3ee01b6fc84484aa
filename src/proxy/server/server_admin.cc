// The admin listener of the process, and what it shows.

#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/log/run_log.h"
#include "proxy/server/server.h"
#include "proxy/server/worker_thread.h"
#include "proxy/tls/server_context.h"

namespace sluice {

namespace {

constexpr uint32_t kAdminBacklog = 128;

// A configuration whose only listener is the admin listener: its sockets are handled like those of others.
config::Config admin_listen_config(const config::Config& config) {
  config::Config alone;
  if (!config.admin) return alone;
  config::Listener& listener = alone.listeners.emplace_back();
  listener.name = kAdminListener;
  listener.addresses = config.admin->addresses;
  listener.backlog = kAdminBacklog;
  return alone;
}

}  // namespace

// Reads and opens all that the admin listener of `config` needs. Nothing takes effect yet, but sockets that are new are
// open: close_admin_sockets() closes those that the configuration in use does not have.
absl::StatusOr<Server::AdminPreparation> Server::prepare_admin(const config::Config& config) {
  AdminPreparation prepared;
  if (!config.admin) return prepared;
  AdminSettings settings{.config = *config.admin};
  if (!config.admin->token_file.empty()) {
    absl::StatusOr<AdminToken> token = AdminToken::read(config.admin->token_file);
    if (!token.ok()) return absl::Status(token.status().code(), absl::StrCat("admin: ", token.status().message()));
    settings.token = *std::move(token);
  }
  if (const std::optional<config::ListenerTls>& tls = config.admin->tls) {
    std::vector<FileWarning> warnings;
    // Its thread signs by itself, without a signer.
    auto context = make_server_context(kAdminListener, *tls, {.ticket_keys = tls_shared_.ticket_keys}, warnings);
    if (!context.ok()) {
      return absl::Status(context.status().code(), absl::StrCat("admin: tls: ", context.status().message()));
    }
    for (const FileWarning& each : warnings) log_line(LogLevel::kWarning, absl::StrCat("admin: tls: ", each.text));
    settings.tls_rules = client_rules(context->get());
    settings.tls = *std::move(context);
  }
  const config::Config alone = admin_listen_config(config);
  admin_sockets_.set_file_mode(config.admin->mode.bits());
  if (absl::Status listening = admin_sockets_.open(alone); !listening.ok()) return listening;
  if (!admin_) {
    absl::StatusOr<std::unique_ptr<AdminServer>> started = AdminServer::start(pages_, admin_counters_, features_);
    if (!started.ok()) {
      return absl::Status(started.status().code(), absl::StrCat("admin: ", started.status().message()));
    }
    admin_ = *std::move(started);
  }
  const config::Listener& listener = alone.listeners[0];
  auto sockets = admin_sockets_.duplicate(listener, config::ListenAddresses(alone).of(listener), /*worker=*/0);
  if (!sockets.ok()) return sockets.status();
  prepared.settings = std::move(settings);
  prepared.sockets = *std::move(sockets);
  return prepared;
}

// `before`: the previous configuration, or null.
void Server::apply_admin(AdminPreparation prepared, const config::Config* before) {
  const config::Config& config = *generation_.config;
  const config::Config alone = admin_listen_config(config);
  publish_view();
  if (!prepared.settings) {
    if (before && before->admin) log_line(LogLevel::kInfo, "admin: the listener is closed");
    admin_.reset();
    return admin_sockets_.keep_only(alone);
  }
  admin_->apply(*std::move(prepared.settings), std::move(prepared.sockets));
  admin_sockets_.keep_only(alone);
  if (before && before->admin && before->admin->addresses == config.admin->addresses) return;
  const config::Listener& listener = alone.listeners[0];
  const auto bound = admin_sockets_.bound_addresses(listener, config::ListenAddresses(alone).of(listener));
  log_line(LogLevel::kInfo, absl::StrCat("admin listener on ", absl::StrJoin(bound, ", ")));
}

// For a preparation that is not applied.
void Server::drop_admin(const AdminPreparation& prepared) {
  for (const ListenSocket& each : prepared.sockets) ::close(each.fd);
  const config::Config& config = *generation_.config;
  if (config.admin) admin_sockets_.set_file_mode(config.admin->mode.bits());
  admin_sockets_.keep_only(admin_listen_config(config));
  if (!config.admin) admin_.reset();
}

absl::Status Server::inherit(const HandedSocket& socket) {
  return socket.listener == kAdminListener ? admin_sockets_.inherit(socket) : sockets_.inherit(socket);
}

std::vector<HandedSocket> Server::sockets_to_hand_over() const {
  std::vector<HandedSocket> all = sockets_.to_hand_over();
  for (HandedSocket& each : admin_sockets_.to_hand_over()) all.push_back(std::move(each));
  return all;
}

// ---- What there is to show ----

// A generation that begins now.
ProcessView::Applied Server::begin_generation(const config::Snapshot<config::Config>& config) const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.number = applied_.number + 1,
          .applied_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .hash = std::make_shared<const ConfigHash>(config)};
}

ProcessView Server::view() const {
  ProcessView shown{.config = generation_.config,
                    .upstreams = generation_.upstreams,
                    .counters = generation_.counters,
                    .access_log_of_listener = access_log_of_listener_,
                    .access_logs = access_logs_.get(),
                    .body_file = body_file_.get(),
                    .overload = &overload_,
                    .xds = options_.xds_counters,
                    .xds_dump = options_.xds_dump,
                    .current = applied_};
  for (const Retired& each : retired_) {
    shown.earlier.push_back(each.applied);
    shown.earlier.back().draining = each.draining;
  }
  switch (phase_) {
    case Phase::kServing:
      shown.phase = "serving";
      break;
    case Phase::kMovingOut:
      shown.phase = "moving_out";
      break;
    case Phase::kDelaying:
      shown.phase = "delaying";
      break;
    case Phase::kDraining:
      shown.phase = "draining";
      break;
    case Phase::kShuttingDown:
      shown.phase = "shutting_down";
      break;
  }
  return shown;
}

void Server::publish_view() {
  pages_.publish(std::make_shared<const ProcessView>(view()));
  if (options_.xds_loads == nullptr) return;
  load_view_ = std::make_shared<const xds::LoadView>(xds::LoadView{
      .config = generation_.config, .upstreams = generation_.upstreams, .counters = generation_.counters});
  options_.xds_loads->publish(load_view_);
}

}  // namespace sluice
