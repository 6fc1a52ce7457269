"""What travels on DDS topics: the types, encoding and decoding, and the checks that every arriving sample passes."""
