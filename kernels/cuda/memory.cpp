#include "kernels/cuda/memory.h"

#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "kernels/cuda/ops/launch.h"
#include "kernels/support/bytes.h"
#include "kernels/support/error.h"

namespace frugal::kernels::cuda {

namespace {

/// Blocks up to this size lie in one page.
constexpr int64_t small = PagePlaces::page / 2;

int64_t rounded(int64_t bytes) {
  constexpr int64_t step = PagePlaces::alignment;
  return (std::max<int64_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace

/// Position of a block of several pages: in the last `head` bytes of one, then in whole ones, then
/// in the first bytes of one, which may be a whole one so far.
struct PagePlaces::Choice {
  Hole first, last;  // holes that are used; none: whole pages
  int64_t head = 0, tail = 0;
  int64_t whole = 0;   // pages that are taken as a whole
  int64_t wasted = 0;  // bytes between blocks

  bool better_than(const Choice& other) const {
    return std::tie(whole, wasted) < std::tie(other.whole, other.wasted);
  }
};

void PagePlaces::add(const Hole& h) {
  holes_[{h.number, h.begin}] = h.size;
  const Holes::value_type by_size{h.size, {h.number, h.begin}};
  all_.insert(by_size);
  if (h.begin == 0) beginnings_.insert(by_size);
  if (h.begin + h.size == page) ends_.insert(by_size);
}

void PagePlaces::remove(const Hole& h) {
  holes_.erase({h.number, h.begin});
  const Holes::value_type by_size{h.size, {h.number, h.begin}};
  for (Holes* const holes : {&all_, &beginnings_, &ends_}) holes->erase(by_size);
}

PagePlaces::Hole PagePlaces::smallest(const Holes& holes, int64_t size) {
  const auto found = holes.lower_bound({size, {-1, 0}});
  if (found == holes.end()) return {};
  return {found->second.first, found->second.second, found->first};
}

void PagePlaces::take_part(const Hole& hole, int64_t begin, int64_t size) {
  if (hole.size < page) remove(hole);
  if (begin > hole.begin) add({hole.number, hole.begin, begin - hole.begin});
  const int64_t end = begin + size, hole_end = hole.begin + hole.size;
  if (end < hole_end) add({hole.number, end, hole_end - end});
}

void PagePlaces::free_part(int number, int64_t begin, int64_t size) {
  Hole hole{number, begin, size};
  const auto after = holes_.find({number, begin + size});
  if (after != holes_.end()) {
    const Hole next{number, begin + size, after->second};
    remove(next);
    hole.size += next.size;
  }
  const auto behind = holes_.lower_bound({number, begin});
  if (behind != holes_.begin()) {
    const auto& [place, length] = *std::prev(behind);
    if (place.first == number && place.second + length == begin) {
      const Hole before{number, place.second, length};
      remove(before);
      hole = {number, before.begin, before.size + hole.size};
    }
  }
  if (hole.size == page)
    free_.insert(number);
  else
    add(hole);
}

int PagePlaces::take_page() {
  for (std::set<int>* const pages : {&free_, &absent_})
    if (!pages->empty()) return pages->extract(pages->begin()).value();
  return next_++;
}

/// Chooses as few whole pages as possible, and then as little between blocks.
PagePlaces::Choice PagePlaces::choose(int64_t size) const {
  const auto with_tail = [&](const Hole& first, int64_t head) {
    Choice c;
    c.first = first;
    c.head = head;
    c.whole = (size - head) / page;
    c.tail = (size - head) % page;
    if (c.tail == 0) return c;
    c.last = smallest(beginnings_, c.tail);
    if (c.last.number < 0)
      ++c.whole;
    else
      c.wasted = c.last.size - c.tail;
    return c;
  };
  Choice best = with_tail({}, 0);
  const auto consider = [&](const Choice& c) {
    if (c.better_than(best)) best = c;
  };
  int64_t last_size = 0;
  for (const auto& [head, place] : ends_) {
    if (head < size && head != last_size)
      consider(with_tail({place.first, place.second, head}, head));
    last_size = head;
  }
  // A block that ends where a page does.
  const int64_t rest = size % page;
  const Hole end = rest > 0 ? smallest(ends_, rest) : Hole{};
  if (end.number >= 0) consider({end, {}, rest, 0, size / page, end.size - rest});
  return best;
}

PagePlaces::Place PagePlaces::take_choice(const Choice& c, int64_t size) {
  Place place;
  if (c.head > 0) {
    take_part(c.first, page - c.head, c.head);
    place.pages.push_back(c.first.number);
    place.offset = page - c.head;
  }
  for (int64_t left = size - c.head; left >= page; left -= page) place.pages.push_back(take_page());
  if (c.tail == 0) return place;
  const Hole last = c.last.number >= 0 ? c.last : Hole{take_page(), 0, page};
  take_part(last, 0, c.tail);
  place.pages.push_back(last.number);
  return place;
}

PagePlaces::Place PagePlaces::take(int64_t bytes) {
  const int64_t size = rounded(bytes);
  Hole hole = smallest(all_, size);
  if (hole.number < 0 && size > small) return take_choice(choose(size), size);
  if (hole.number < 0) hole = {take_page(), 0, page};
  // What is left stays at the beginning of a page or at its end.
  const bool at_end = hole.begin == 0 && hole.size < page;
  const int64_t begin = at_end ? hole.size - size : hole.begin;
  take_part(hole, begin, size);
  return {{hole.number}, begin};
}

void PagePlaces::give_back(const Place& place, int64_t bytes) {
  int64_t begin = place.offset, left = rounded(bytes);
  for (const int number : place.pages) {
    const int64_t here = std::min(left, page - begin);
    free_part(number, begin, here);
    left -= here;
    begin = 0;
  }
}

std::vector<int> PagePlaces::drop_free() {
  std::vector<int> dropped(free_.begin(), free_.end());
  absent_.merge(free_);
  free_.clear();
  return dropped;
}

void PagePlaces::drop(int number) {
  free_.erase(number);
  absent_.insert(number);
}

/// The driver's functions. It is not linked, so that programs start where there is none.
struct Driver {
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
};

namespace {

constexpr auto page = static_cast<size_t>(PagePlaces::page);
/// Bytes of addresses that are kept. A page's entry in the GPU's table has 8 bytes; the driver's
/// own has more.
constexpr int64_t most_mapped = int64_t{1} << 40;

/// Errors have the numbers that the runtime gives them.
void check(CUresult result, const char* call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) {
  cuda::check(static_cast<cudaError_t>(result), call, file, line);
}

template <class F>
bool find(const char* name, F& function) {
  constexpr unsigned version = 12000;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return false;
  function = reinterpret_cast<F>(found);
  return true;
}

const Driver* driver() {
  static const std::optional<Driver> found = []() -> std::optional<Driver> {
    Driver d;
    const bool all = find("cuDeviceGetAttribute", d.attribute) &&
                     find("cuMemGetAllocationGranularity", d.granularity) &&
                     find("cuMemAddressReserve", d.reserve) && find("cuMemAddressFree", d.free) &&
                     find("cuMemCreate", d.create) && find("cuMemRelease", d.release) &&
                     find("cuMemMap", d.map) && find("cuMemUnmap", d.unmap) &&
                     find("cuMemSetAccess", d.set_access);
    return all ? std::optional(d) : std::nullopt;
  }();
  return found ? &*found : nullptr;
}

CUmemLocation location(int device) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

constexpr int most_devices = 64;
uint64_t bit(int device) { return uint64_t{1} << static_cast<unsigned>(device); }
CUdeviceptr address_of(char* begin) { return reinterpret_cast<CUdeviceptr>(begin); }

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location(device);
  return properties;
}

/// Devices on which this process has had memory, as bits.
std::atomic<uint64_t> devices_used = 0;

}  // namespace

std::unique_ptr<PagedMemory> PagedMemory::of_current() {
  int device = 0, supported = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const char* const wanted = std::getenv("FRUGAL_CUDA_PAGES");
  if ((wanted != nullptr && std::string_view(wanted) == "0") || driver() == nullptr) return nullptr;
  check(driver()->attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                            device),
        "cuDeviceGetAttribute");
  if (supported == 0) return nullptr;
  const CUmemAllocationProp properties = properties_of(device);
  size_t granularity = 0;
  check(driver()->granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
  if (page % granularity != 0) return nullptr;
  return std::unique_ptr<PagedMemory>(new PagedMemory(*driver(), device));
}

PagedMemory::PagedMemory(const Driver& driver, int device) : driver_(driver), device_(device) {
  devices_used |= bit(device);
  size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  capacity_ = static_cast<int64_t>(total);
}

PagedMemory::~PagedMemory() { release_free(); }

unsigned long long& PagedMemory::handle_of(int number) {
  const auto i = static_cast<size_t>(number);
  if (i >= handles_.size()) handles_.resize(i + 1);
  return handles_[i];
}

/// True if the pages are there, or can be had.
bool PagedMemory::have(const std::vector<int>& pages) {
  const auto is_missing = [&](int number) { return handle_of(number) == 0; };
  const auto missing = static_cast<size_t>(std::ranges::count_if(pages, is_missing));
  if (missing == 0) return true;
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (missing * page > free) return false;
  const CUmemAllocationProp properties = properties_of(device_);
  for (const int number : pages) {
    if (!is_missing(number)) continue;
    const CUresult result = driver_.create(&handle_of(number), page, &properties, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return false;
    check(result, "cuMemCreate");
    reserved_ += PagePlaces::page;
  }
  return true;
}

/// Gives access to its own device, and those of other ranks in this process, as to memory that the
/// runtime gives.
void PagedMemory::allow(char* begin, size_t pages) const {
  std::vector<CUmemAccessDesc> all;
  for (int device = 0; device < most_devices; ++device)
    if ((reaching_ & bit(device)) != 0)
      all.push_back({location(device), CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  check(driver_.set_access(address_of(begin), pages * page, all.data(), all.size()),
        "cuMemSetAccess");
}

void PagedMemory::allow_new_devices() {
  const uint64_t used = devices_used;
  if (std::exchange(seen_, used) == used) return;
  uint64_t reaching = bit(device_);
  for (int device = 0; device < most_devices; ++device) {
    int can = 0;
    if (device == device_ || (used & bit(device)) == 0) continue;
    check(cudaDeviceCanAccessPeer(&can, device, device_), "cudaDeviceCanAccessPeer");
    if (can != 0) reaching |= bit(device);
  }
  if (std::exchange(reaching_, reaching) == reaching) return;
  for (const auto& [pages, range] : ranges_) allow(range.begin, pages.size());
}

PagedMemory::Ranges::iterator PagedMemory::range_of(const std::vector<int>& pages) {
  if (const auto found = ranges_.find(pages); found != ranges_.end()) return found;
  const size_t bytes = pages.size() * page;
  CUdeviceptr begin = 0;
  check(driver_.reserve(&begin, bytes, page, 0, 0), "cuMemAddressReserve");
  for (size_t i = 0; i < pages.size(); ++i)
    check(driver_.map(begin + i * page, page, 0, handles_[static_cast<size_t>(pages[i])], 0),
          "cuMemMap");
  const Range range{reinterpret_cast<char*>(begin), 0};
  allow(range.begin, pages.size());
  mapped_ += static_cast<int64_t>(bytes);
  return ranges_.emplace(pages, range).first;
}

void* PagedMemory::allocate(int64_t bytes) {
  if (bytes > capacity_) {  // as many pages would take long to list
    release_free();
    return nullptr;
  }
  allow_new_devices();
  if (mapped_ > most_mapped) unmap_unused();
  const PagePlaces::Place place = places_.take(bytes);
  if (!have(place.pages)) {
    places_.give_back(place, bytes);
    for (const int number : place.pages)
      if (handle_of(number) == 0) places_.drop(number);
    release_free();
    return nullptr;
  }
  const auto range = range_of(place.pages);
  char* const address = range->second.begin + place.offset;
  blocks_[address] = {range, place.offset};
  ++range->second.blocks;
  return address;
}

void PagedMemory::deallocate(void* address, int64_t bytes) noexcept {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return;
  const auto [range, offset] = found->second;
  --range->second.blocks;
  blocks_.erase(found);
  try {
    places_.give_back({range->first, offset}, bytes);
  } catch (...) {  // without memory for its lists the block stays taken
  }
}

void PagedMemory::unmap_unused() noexcept {
  cudaDeviceSynchronize();
  std::erase_if(ranges_, [&](const auto& entry) {
    const auto& [pages, range] = entry;
    const size_t bytes = pages.size() * page;
    if (range.blocks > 0) return false;
    driver_.unmap(address_of(range.begin), bytes);
    driver_.free(address_of(range.begin), bytes);
    mapped_ -= static_cast<int64_t>(bytes);
    return true;
  });
}

void PagedMemory::release_free() noexcept {
  unmap_unused();
  for (const int number : places_.drop_free()) {
    driver_.release(std::exchange(handles_[static_cast<size_t>(number)], 0));
    reserved_ -= PagePlaces::page;
  }
}

namespace {

constexpr int64_t small_step = 512, large_step = int64_t{2} << 20;

/// Bytes that are taken for a request. The driver gives large blocks in pages of 2 MiB anyway.
int64_t size_class(int64_t bytes) {
  const int64_t step = bytes < large_step / 2 ? small_step : large_step;
  const int64_t size = bytes < 1 ? 1 : bytes;
  return (size + step - 1) / step * step;
}

}  // namespace

/// Null where there is no more.
void* CudaMemory::obtain(int64_t size) {
  if (budget_ && !budget_->take(size)) return nullptr;
  void* address = nullptr;
  const auto count = static_cast<size_t>(size);
  const cudaError_t error = place_ == Place::gpu
                                ? cudaMalloc(&address, count)
                                : cudaHostAlloc(&address, count, cudaHostAllocPortable);
  if (error == cudaSuccess) {
    reserved_ += size;
    return address;
  }
  if (budget_) budget_->give_back(size);
  if (error != cudaErrorMemoryAllocation)
    check(error, place_ == Place::gpu ? "cudaMalloc" : "cudaHostAlloc");
  static_cast<void>(cudaGetLastError());  // it is handled, and must not surface later
  return nullptr;
}

void CudaMemory::give_back(void* address, int64_t size) noexcept {
  if (place_ == Place::gpu)
    cudaFree(address);  // waits for what still uses it
  else
    cudaFreeHost(address);
  if (budget_) budget_->give_back(size);
  reserved_ -= size;
}

void CudaMemory::refuse(int64_t bytes) const {
  if (place_ == Place::host)
    throw OutOfMemory(
        fmt::format("cuda: out of memory of the host ({} requested, {} in use, {} of {} taken by "
                    "this process)",
                    bytes_in_words(bytes), bytes_in_words(in_use_),
                    bytes_in_words(budget_->taken()), bytes_in_words(budget_->capacity())),
        bytes, in_use_, in_use_ + budget_->capacity() - budget_->taken());
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  throw OutOfMemory(fmt::format("cuda: out of memory ({} requested, {} in use, {} of {} free)",
                                bytes_in_words(bytes), bytes_in_words(in_use_),
                                bytes_in_words(static_cast<int64_t>(free)),
                                bytes_in_words(static_cast<int64_t>(total))),
                    bytes, in_use_, in_use_ + static_cast<int64_t>(free));
}

/// Null where there is no more.
void* CudaMemory::take(int64_t bytes) {
  if (!std::exchange(begun_, true) && place_ == Place::gpu) paged_ = PagedMemory::of_current();
  if (paged_) return paged_->allocate(bytes);
  const int64_t size = size_class(bytes);
  auto& blocks = free_[size];
  if (!blocks.empty()) {
    void* const address = blocks.back();
    blocks.pop_back();
    return address;
  }
  if (void* const address = obtain(size)) return address;
  release_free_blocks();
  return obtain(size);
}

void* CudaMemory::allocate(int64_t bytes) {
  void* const address = take(bytes);
  if (address == nullptr) refuse(bytes);
  in_use_ += bytes;
  return address;
}

void CudaMemory::deallocate(void* address, int64_t bytes) noexcept {
  if (address == nullptr) return;
  in_use_ -= bytes;
  if (paged_) return paged_->deallocate(address, bytes);
  const int64_t size = size_class(bytes);
  try {
    free_[size].push_back(address);
  } catch (...) {  // no memory for the list itself
    give_back(address, size);
  }
}

void CudaMemory::release_free_blocks() noexcept {
  if (paged_) paged_->release_free();
  for (auto& [size, blocks] : free_) {
    for (void* const block : blocks) give_back(block, size);
    blocks.clear();
  }
}

}  // namespace frugal::kernels::cuda
