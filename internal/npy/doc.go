// Package npy reads and writes NumPy's .npy files: a short header and a flat array.
//
// A file of vectors can be larger than memory, so [Open] maps it and converts rows on demand; an array of float32
// is handed out in place ([File.Float32]). Only what aerie can use is accepted: little-endian float16, float32 and
// float64 with two dimensions in C order, and for [ReadInts] one dimension of integers. Everything else is
// refused with a sentence that names the file, what is wrong with it and what to do.
//
// The format is that of NumPy's numpy/lib/format.py, versions 1.0, 2.0 and 3.0: the magic string, two version bytes, the
// length of the header (2 bytes in version 1, 4 later), and the header, a Python dict literal with the keys descr,
// fortran_order and shape.
package npy
