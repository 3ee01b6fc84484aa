#include "sluice/file_pool.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "pool/range_set.h"
#include "pool/sanitizer.h"
#include "sluice/internal/check.h"
#include "sluice/tier.h"

namespace sluice::inline v0_1 {

namespace {

constexpr size_t kExtentBytes = FilePool::kExtentBytes;
constexpr int kMinTier = tier_for(FilePool::kMinBytes);
constexpr size_t kFileTiers = kTierCount - kMinTier;
static_assert(tier_bytes(kTierCount - 1) == kExtentBytes);

// Reserved extents that no chunk used for one to two such periods are punched out.
constexpr std::chrono::seconds kAge{1};

// An extent that is carved into chunks of one tier.
struct Extent {
  uint8_t tier = 0;
  uint16_t free = 0;  // One bit per free chunk.
};
static_assert(kExtentBytes / FilePool::kMinBytes <= 16);

uint16_t all_pieces(int tier) { return static_cast<uint16_t>((uint32_t{1} << (kExtentBytes / tier_bytes(tier))) - 1); }

// Opens a new file without a name. Returns its descriptor, or -1 with errno set.
int open_unlinked(const std::string& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  // The errors of file systems and kernels without O_TMPFILE.
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string path = directory + "/sluice-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

// Both functions return an errno, or 0.
int reserve_blocks(int fd, size_t offset, size_t bytes) {
  // Exceeding the limit would also raise SIGXFSZ, which ends the process.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && offset + bytes > limit.rlim_cur) return EFBIG;
  while (fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}
int punch_hole(int fd, size_t offset, size_t bytes) {
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(fd, kPunch, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

size_t occupied_bytes(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 ? static_cast<size_t>(status.st_blocks) * 512 : 0;
}

// Drops the first `count` bytes and any empty pieces after them.
void advance_pieces(std::span<iovec>& pieces, size_t count) {
  while (!pieces.empty() && (count > 0 || pieces.front().iov_len == 0)) {
    iovec& first = pieces.front();
    const size_t done = std::min(count, first.iov_len);
    first.iov_base = static_cast<std::byte*>(first.iov_base) + done;
    first.iov_len -= done;
    count -= done;
    if (first.iov_len == 0) pieces = pieces.subspan(1);
  }
}

const char* remedy(int code) {
  switch (code) {
    case EFBIG:
      return "raise `ulimit -f`, or the largest size of a file there";
    case EDQUOT:
      return "raise the quota, or choose another directory";
    case EIO:
      return "check the disk";
    default:
      return "free space there, or choose another directory";
  }
}

}  // namespace

struct FilePool::State {
  explicit State(Options given) : options(std::move(given)) {}
  ~State() {
    if (base) {
      unpoison(base, extents.size() * kExtentBytes);
      munmap(base, limit * kExtentBytes);
    }
    if (fd >= 0) close(fd);
  }

  // These functions set `error` if the pool is unusable.
  void open_file();
  void test_operations();
  void start();
  void unusable(const std::string& what, int code, const std::string& advice) {
    error = {FileError::Kind::kUnusable, code,
             "cannot keep bytes in a file in " + options.directory + " (limit " + std::to_string(options.limit_bytes) +
                 " bytes): " + what + (code ? std::string(": ") + std::strerror(code) : "") + "; " + advice};
  }

  using Lock = std::unique_lock<std::mutex>;
  // Makes sure that there is a spare extent. Releases the lock while it waits for the disk.
  bool reserve(Lock& lock, size_t wanted, FileError* why);
  Range take_unreserved();
  int reserve_blocks_of(Range range) const {
    return reserve_blocks(fd, range.begin * kExtentBytes, range.count * kExtentBytes);
  }
  // Punches out up to `count` spare extents. Releases the lock while it does.
  void give_back(Lock& lock, size_t count);
  void give_back_loop();
  void punch_strays();

  bool refuse(FileError* why, FileError::Kind kind, size_t wanted, int code);
  static void release(void* context, std::byte* data, size_t bytes) { static_cast<State*>(context)->put(data, bytes); }
  void put(std::byte* data, size_t bytes);
  void report_leak() const;

  // In extents. Includes those being reserved or punched at the moment.
  size_t on_disk() const { return used + spare.count() + in_flight; }
  void update_peak() { stats.disk_bytes_peak = std::max(stats.disk_bytes_peak, on_disk() * kExtentBytes); }

  // Constant after the constructor.
  Options options;
  FileError error;
  int fd = -1;
  std::byte* base = nullptr;
  size_t limit = 0;  // In extents, as are all counts below.
  size_t step = 0;
  bool memory = false;
  std::thread giving_back;

  mutable std::mutex mutex;
  std::condition_variable wake;     // Wakes the thread.
  std::condition_variable settled;  // An operation in flight has finished.
  // Each extent below `fresh` is in one of these sets, in flight, or used by chunks. Extents above were never reserved.
  RangeSet spare;  // Reserved.
  RangeSet holes;  // Not reserved.
  size_t fresh = 0;
  size_t in_flight = 0;  // Being reserved or punched at the moment.
  size_t used = 0;
  size_t least_spare = 0;  // The minimum since the thread last ran.
  bool stop = false;
  bool closed = false;                                 // The pool is destroyed; the last chunk deletes this state.
  std::vector<Extent> extents;                         // The extents below `fresh`.
  std::array<std::set<size_t>, kFileTiers> with_room;  // Per tier: extents that have free chunks.
  std::array<uint64_t, kFileTiers> out{};              // Outstanding chunks per tier.
  Stats stats;
};

// ---- Opening ----

void FilePool::State::open_file() {
  limit = options.limit_bytes / kExtentBytes;
  step = std::clamp<size_t>(options.step_bytes / kExtentBytes, 1, std::max<size_t>(limit, 1));
  if (limit == 0) return unusable("the limit is less than 64 KiB", 0, "raise it");
  fd = open_unlinked(options.directory);
  if (fd < 0) return unusable("cannot make a file", errno, "name a directory that exists and is writable");
  struct statfs file_system{};
  memory = fstatfs(fd, &file_system) == 0 &&
           (file_system.f_type == TMPFS_MAGIC || file_system.f_type == static_cast<long>(RAMFS_MAGIC));
  void* mapped = mmap(nullptr, limit * kExtentBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) {
    return unusable("cannot map it", errno, "lower the limit, raise `ulimit -v`, or choose another directory");
  }
  base = static_cast<std::byte*>(mapped);
}

// Some file systems report success for both operations and perform neither, so check the effect on the file.
void FilePool::State::test_operations() {
  const char* const advice = "choose a directory on ext4 or xfs";
  if (const int code = reserve_blocks(fd, 0, kExtentBytes); code != 0) {
    const bool cannot = code == EOPNOTSUPP || code == ENOSYS;
    return unusable("cannot reserve blocks (fallocate)", code, cannot ? advice : remedy(code));
  }
  const size_t reserved = occupied_bytes(fd);
  if (reserved < kExtentBytes) return unusable("its blocks were not reserved (fallocate)", 0, advice);
  if (const int code = punch_hole(fd, 0, kExtentBytes); code != 0) {
    return unusable("cannot give blocks back (FALLOC_FL_PUNCH_HOLE)", code, advice);
  }
  if (occupied_bytes(fd) > reserved - kExtentBytes) {
    return unusable("its blocks were not given back (FALLOC_FL_PUNCH_HOLE)", 0, advice);
  }
}

// Block all signals in the new thread: they belong to the threads that handle them.
void FilePool::State::start() {
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGPROF);  // A profiler's, for each thread.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    giving_back = std::thread([this] { give_back_loop(); });
  } catch (const std::system_error& failed) {
    unusable("cannot start a thread", failed.code().value(), "raise `ulimit -u`");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

FilePool::FilePool(Options options) : state_(new State(std::move(options))) {
  state_->open_file();
  if (ok()) state_->test_operations();
  if (ok()) state_->start();
}

FilePool::~FilePool() {
  State::Lock lock(state_->mutex);
  state_->stop = true;
  state_->wake.notify_all();
  lock.unlock();
  if (state_->giving_back.joinable()) state_->giving_back.join();
  lock.lock();
  state_->closed = true;
  const bool leaked = state_->stats.out_chunks > 0;
  if (leaked) state_->report_leak();
  lock.unlock();
  if (!leaked) delete state_;
}

void FilePool::State::report_leak() const {
  std::fprintf(stderr, "sluice: leak: %zu bytes in chunks of the file in %s were not released:", stats.out_bytes,
               options.directory.c_str());
  for (size_t i = 0; i < kFileTiers; ++i) {
    if (out[i]) {
      std::fprintf(stderr, " %llu x %zu B", static_cast<unsigned long long>(out[i]),
                   tier_bytes(kMinTier + static_cast<int>(i)));
    }
  }
  std::fputc('\n', stderr);
}

bool FilePool::ok() const { return state_->error.kind == FileError::Kind::kNone; }
const FileError& FilePool::error() const { return state_->error; }
bool FilePool::in_memory() const { return state_->memory; }

// ---- Chunks ----

bool FilePool::State::refuse(FileError* why, FileError::Kind kind, size_t wanted, int code) {
  ++(kind == FileError::Kind::kLimit ? stats.refused_by_limit : stats.refused_by_disk);
  if (!why) return false;
  const std::string where = std::to_string(wanted) + " more bytes in a file in " + options.directory + " (" +
                            std::to_string(stats.out_bytes) + " bytes in use, limit " +
                            std::to_string(limit * kExtentBytes) + ")";
  if (kind == FileError::Kind::kLimit) {
    *why = {kind, 0, "no room for " + where + ": the limit is used up; raise it, or let fewer bytes wait"};
  } else {
    *why = {kind, code, "no room for " + where + ": " + std::strerror(code) + "; " + remedy(code)};
  }
  return false;
}

// The next extents to reserve. The file fills from its beginning.
Range FilePool::State::take_unreserved() {
  if (!holes.empty()) return holes.take_lowest(step);
  const Range range{fresh, std::min(step, limit - fresh)};
  fresh += range.count;
  extents.resize(fresh);
  return range;
}

bool FilePool::State::reserve(Lock& lock, size_t wanted, FileError* why) {
  while (spare.empty()) {
    Range range = take_unreserved();
    if (range.count == 0 && in_flight == 0) return refuse(why, FileError::Kind::kLimit, wanted, 0);
    if (range.count == 0) {
      settled.wait(lock);
      continue;
    }
    in_flight += range.count;
    update_peak();
    lock.unlock();
    int code = reserve_blocks_of(range);
    Range rest;
    if (code != 0) {
      // Part of the range may have been reserved. A single extent may succeed where a whole step fails.
      punch_hole(fd, range.begin * kExtentBytes, range.count * kExtentBytes);
      rest = {range.begin + 1, range.count - 1};
      range.count = 1;
      if (rest.count > 0) code = reserve_blocks_of(range);
    }
    lock.lock();
    in_flight -= range.count + rest.count;
    settled.notify_all();
    holes.add(rest);
    (code == 0 ? spare : holes).add(range);
    if (code == 0) wake.notify_one();
    // Another thread may be punching the blocks that are missing.
    if (code != 0 && in_flight > 0) {
      settled.wait(lock);
    } else if (code != 0) {
      return refuse(why, FileError::Kind::kDisk, wanted, code);
    }
  }
  return true;
}

Chunk* FilePool::get(size_t bytes, FileError* error, ChunkKind kind) {
  SLUICE_CHECK(bytes <= kMaxChunkBytes);
  State& s = *state_;
  if (!ok()) {
    if (error) *error = s.error;
    return nullptr;
  }
  const int tier = std::max(tier_for(bytes), kMinTier);
  const size_t capacity = tier_bytes(tier);
  std::set<size_t>& with_room = s.with_room[static_cast<size_t>(tier - kMinTier)];
  State::Lock lock(s.mutex);
  size_t number = 0;
  if (!with_room.empty()) {
    number = *with_room.begin();
  } else {
    if (!s.reserve(lock, capacity, error)) return nullptr;
    number = s.spare.take_lowest(1).begin;
    s.least_spare = std::min(s.least_spare, s.spare.count());
    ++s.used;
    s.extents[number] = {static_cast<uint8_t>(tier), all_pieces(tier)};
    with_room.insert(number);
  }
  Extent& extent = s.extents[number];
  const size_t piece = static_cast<size_t>(std::countr_zero(extent.free));
  extent.free = static_cast<uint16_t>(extent.free & (extent.free - 1));
  if (extent.free == 0) with_room.erase(number);
  ++s.out[static_cast<size_t>(tier - kMinTier)];
  ++s.stats.out_chunks;
  s.stats.out_bytes += capacity;
  s.stats.out_bytes_peak = std::max(s.stats.out_bytes_peak, s.stats.out_bytes);
  lock.unlock();

  std::byte* const data = s.base + number * kExtentBytes + piece * capacity;
  unpoison(data, capacity);
  return external_chunk(data, capacity, kind, &State::release, &s);
}

void FilePool::State::put(std::byte* data, size_t bytes) {
  poison(data, bytes);
  const size_t offset = static_cast<size_t>(data - base);
  const size_t number = offset / kExtentBytes;
  Lock lock(mutex);
  Extent& extent = extents[number];
  const int tier = extent.tier;
  const size_t index = static_cast<size_t>(tier - kMinTier);
  const uint16_t piece = static_cast<uint16_t>(1u << (offset % kExtentBytes / bytes));
  SLUICE_CHECK(bytes == tier_bytes(tier) && !(extent.free & piece));
  if (extent.free == 0) with_room[index].insert(number);
  extent.free |= piece;
  --out[index];
  --stats.out_chunks;
  stats.out_bytes -= bytes;
  if (extent.free == all_pieces(tier)) {
    with_room[index].erase(number);
    --used;
    spare.add({number, 1});
    if (spare.count() == 1 || spare.count() > step) wake.notify_one();
  }
  const bool last = closed && stats.out_chunks == 0;
  lock.unlock();
  if (last) delete this;
}

bool FilePool::write(std::byte* to, std::span<iovec> from, FileError* error) {
  constexpr size_t kMaxPieces = 1024;  // IOV_MAX
  State& s = *state_;
  off_t offset = to - s.base;
  advance_pieces(from, 0);
  while (!from.empty()) {
    const ssize_t written = pwritev(s.fd, from.data(), static_cast<int>(std::min(from.size(), kMaxPieces)), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int code = written < 0 ? errno : ENOSPC;
      size_t left = 0;
      for (const iovec& piece : from) left += piece.iov_len;
      const State::Lock lock(s.mutex);
      return s.refuse(error, FileError::Kind::kDisk, left, code);
    }
    offset += written;
    advance_pieces(from, static_cast<size_t>(written));
  }
  return true;
}

bool FilePool::contains(const std::byte* data) const {
  const State& s = *state_;
  return s.base && data >= s.base && data < s.base + s.limit * kExtentBytes;
}

// ---- Returning blocks ----

void FilePool::State::give_back(Lock& lock, size_t count) {
  while (count > 0 && !spare.empty()) {
    const Range range = spare.take_highest(count);
    least_spare = std::min(least_spare, spare.count());
    in_flight += range.count;
    lock.unlock();
    const int code = punch_hole(fd, range.begin * kExtentBytes, range.count * kExtentBytes);
    lock.lock();
    in_flight -= range.count;
    (code == 0 ? holes : spare).add(range);
    settled.notify_all();
    if (code != 0) {
      ++stats.give_back_errors;
      return;
    }
    stats.given_back_bytes += range.count * kExtentBytes;
    count -= range.count;
  }
}

// A store through the mapping allocates blocks for the whole page cache piece it touches. After read-ahead such a piece
// may extend into neighboring extents that were punched out.
void FilePool::State::punch_strays() {
  if (occupied_bytes(fd) < (on_disk() + 1) * kExtentBytes) return;
  RangeSet punched;
  while (!holes.empty()) {
    const Range range = holes.take_lowest(limit);
    punch_hole(fd, range.begin * kExtentBytes, range.count * kExtentBytes);
    punched.add(range);
  }
  holes = std::move(punched);
}

// Punching any hole may take milliseconds (on file systems mounted with `discard`), so holes are punched in large
// ranges and never on the thread that releases a chunk.
void FilePool::State::give_back_loop() {
  pthread_setname_np(pthread_self(), "file pool");
  Lock lock(mutex);
  for (uint64_t errors = 0; !stop;) {
    if (spare.empty()) wake.wait(lock, [this] { return stop || !spare.empty(); });
    // After an error, wait for the next period.
    const bool failed = std::exchange(errors, stats.give_back_errors) != stats.give_back_errors;
    const bool many = wake.wait_for(lock, kAge, [&] { return stop || (!failed && spare.count() > step); });
    if (stop) return;
    // Punch down to half a step, so that this does not run for every single extent.
    give_back(lock, many ? spare.count() - step / 2 : std::min(least_spare, spare.count()));
    if (!many) punch_strays();
    least_spare = spare.count();
  }
}

void FilePool::trim() {
  State& s = *state_;
  State::Lock lock(s.mutex);
  s.give_back(lock, s.spare.count());
  s.settled.wait(lock, [&s] { return s.in_flight == 0; });
  if (ok()) s.punch_strays();
}

// ---- Statistics ----

size_t FilePool::disk_bytes() const {
  const State::Lock lock(state_->mutex);
  return state_->on_disk() * kExtentBytes;
}

size_t FilePool::file_system_bytes() const { return occupied_bytes(state_->fd); }

FilePool::Stats FilePool::stats() const {
  const State& s = *state_;
  const State::Lock lock(s.mutex);
  Stats stats = s.stats;
  stats.disk_bytes = s.on_disk() * kExtentBytes;
  stats.limit_bytes = s.limit * kExtentBytes;
  return stats;
}

}  // namespace sluice::inline v0_1
