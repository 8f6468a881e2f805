// A test does not depend on what this user's cache has, and leaves nothing there.
#include <cstdlib>

namespace {

[[maybe_unused]] const int without_cache = ::setenv("FRUGAL_CACHE", "", 1);

}  // namespace
