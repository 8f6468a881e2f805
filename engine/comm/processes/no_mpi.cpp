// In place of engine/comm/processes/mpi*.cpp, where the program is built without MPI.
#include <cstdlib>

#include "engine/comm/processes/mpi.h"
#include "kernels/support/error.h"

namespace frugal::engine {

std::string why_no_mpi() {
  return "this build has no MPI, which ranks that are processes need; install Open MPI (package "
         "libopenmpi-dev) and build again, or run the ranks as threads, without a launcher";
}

std::string mpi_version() { return ""; }

MpiSession::MpiSession() { throw InputError(why_no_mpi()); }
MpiSession::~MpiSession() = default;
std::string MpiSession::tell(const std::string& text) const { return text; }
void MpiSession::abort(int status) const { std::_Exit(status); }

MakeProcessGroup mpi_groups(World& /*world*/) { throw InputError(why_no_mpi()); }

}  // namespace frugal::engine
