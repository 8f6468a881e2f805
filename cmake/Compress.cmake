# Run by CPack where all is that goes into a package: what Debian reads compressed is compressed.
file(GLOB_RECURSE texts ${CPACK_TEMPORARY_DIRECTORY}/*.1 ${CPACK_TEMPORARY_DIRECTORY}/*/changelog
     ${CPACK_TEMPORARY_DIRECTORY}/*/changelog.Debian)
execute_process(COMMAND gzip -9 --no-name ${texts} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE archives ${CPACK_TEMPORARY_DIRECTORY}/*.a)
if(archives)
  execute_process(COMMAND strip --strip-debug --remove-section=.comment --enable-deterministic-archives ${archives}
                  COMMAND_ERROR_IS_FATAL ANY)
endif()
