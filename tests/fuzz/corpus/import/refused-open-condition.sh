if [ a ]; then
