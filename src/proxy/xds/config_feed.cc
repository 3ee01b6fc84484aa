#include "proxy/xds/config_feed.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice::xds {

ConfigFeed::ConfigFeed() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { SLUICE_CHECK(fd_ >= 0); }

ConfigFeed::~ConfigFeed() { ::close(fd_); }

absl::Status ConfigFeed::offer(std::shared_ptr<const config::Config> config) {
  std::unique_lock lock(mutex_);
  if (closed_) return absl::UnavailableError("the process is draining");
  if (current_ && (current_ == config || *current_ == *config)) return absl::OkStatus();
  if (!current_) {
    current_ = std::move(config);
    changed_.notify_all();
    return absl::OkStatus();
  }
  offered_ = std::move(config);
  SLUICE_CHECK(eventfd_write(fd_, 1) == 0);
  changed_.wait(lock, [this] { return !offered_ || closed_; });
  if (!closed_) return settled_;
  offered_.reset();
  return absl::UnavailableError("the process is draining");
}

bool ConfigFeed::wait_for_first(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return current_ != nullptr; });
}

std::shared_ptr<const config::Config> ConfigFeed::latest() const {
  const std::lock_guard lock(mutex_);
  return offered_ ? offered_ : current_;
}

void ConfigFeed::settle(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  (void)read(fd_, &count, sizeof count);
  if (!offered_) return;
  if (status.ok()) current_ = std::move(offered_);
  offered_.reset();
  settled_ = status;
  changed_.notify_all();
}

bool ConfigFeed::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void ConfigFeed::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace sluice::xds
