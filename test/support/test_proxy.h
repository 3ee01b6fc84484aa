#pragma once

// A proxy with one worker in this process, without the server around it: for counting the costs of forwarding.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/features.h"
#include "net/listener.h"
#include "proxy/access_log/access_log.h"
#include "proxy/server/generation.h"
#include "proxy/server/worker_thread.h"
#include "proxy/tls/tls_files.h"
#include "sluice/internal/check.h"

namespace sluice::test {

/// A socket that listens on some port of this machine, which `address` is set to.
inline int listen_anywhere(sockaddr_in& address) {
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto fd = open_listener(reinterpret_cast<sockaddr*>(&address), sizeof address, {});
  SLUICE_CHECK(fd.ok());
  socklen_t length = sizeof address;
  getsockname(*fd, reinterpret_cast<sockaddr*>(&address), &length);
  return *fd;
}

inline std::string text_of(const sockaddr_in& address) {
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

/// A client's connection that sends without delay (TCP_NODELAY).
inline int connect_to(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  SLUICE_CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

/// A pool that keeps unused memory: with the usual period it goes back to the system, and is allocated anew, by time.
constexpr uint64_t kNoDecayMs = 3'600'000;

class TestProxy {
 public:
  /// Takes `listen_fds`, one for each listener, in the place of their addresses.
  TestProxy(config::Config config, std::vector<int> listen_fds, Worker::Options options)
      : generation_(std::move(config), 1) {
    const config::Config& configuration = *generation_.config;
    auto contexts = read_tls_files(configuration, TlsShared());
    SLUICE_CHECK(contexts.ok());
    std::vector<std::string> log_files;
    for (size_t i = 0; i < configuration.listeners.size(); ++i) {
      const config::Listener& listener = configuration.listeners[i];
      generation_.listeners[i]->tls.replace(std::move(contexts->listeners[i]));
      if (const config::AccessLog* const log = listener.access_log()) log_files.push_back(log->file);
    }
    for (size_t i = 0; i < configuration.upstreams.size(); ++i) {
      generation_.upstreams[i]->tls.replace(std::move(contexts->upstreams[i]));
    }
    WorkerGeneration first(generation_, 0);
    for (const int fd : listen_fds) first.sockets.push_back({{.fd = fd, .family = AF_INET}});
    first.access_logs = open_logs(log_files);
    worker_ = std::make_unique<WorkerThread>(options, WorkerThread::Shared{connections_}, std::move(first));
    SLUICE_CHECK(worker_->wait_until_ready().ok());
  }
  /// Its clients must be closed.
  ~TestProxy() {
    worker_->drain();
    worker_.reset();
  }

  const WorkerCounters& counters() const { return *generation_.counters[0]; }
  /// The worker's present gauges.
  const WorkerGauges& gauges() {
    const uint64_t before = worker_->snapshots();
    worker_->request_snapshot();
    while (worker_->snapshots() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return *counters().gauges;
  }

 private:
  // For the writers of the worker; a log belongs to the first listener.
  std::vector<AccessLogWriter*> open_logs(const std::vector<std::string>& files) {
    std::vector<AccessLogWriter*> writers(generation_.listeners.size(), nullptr);
    if (files.empty()) return writers;
    auto logs = AccessLogs::open(files, 1);
    SLUICE_CHECK(logs.ok() && files.size() == 1);
    logs_ = *std::move(logs);
    writers[0] = &logs_->writer(0, 0);
    return writers;
  }

  Generation generation_;
  ConnectionLimit connections_{0};
  std::unique_ptr<AccessLogs> logs_;
  std::unique_ptr<WorkerThread> worker_;
};

}  // namespace sluice::test
