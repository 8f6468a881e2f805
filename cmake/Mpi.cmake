# Ranks that are processes, where there is Open MPI. FRUGAL_HAVE_MPI chooses source files.
frugal_parts(MPI)
if(NOT FRUGAL_WITH_MPI STREQUAL OFF)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  frugal_optional(MPI "MPI (mpi.h, libmpi, mpirun; packages libopenmpi-dev and openmpi-bin)"
                  MPI_CXX_FOUND AND MPIEXEC_EXECUTABLE)
endif()
message(STATUS "Ranks as processes: MPI ${FRUGAL_HAVE_MPI}")
