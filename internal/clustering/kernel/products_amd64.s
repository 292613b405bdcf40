#include "textflag.h"

// One row after the other, 32 floats a step: Y0..Y3 are the lanes. The rows come from memory, which is what all waits for;
// asking for them a kilobyte ahead carries the stream across the ends of pages, where the processor's own prefetching stops.

// func productsAVX2(n, dim int, dst, rows, x *float32)
TEXT ·productsAVX2(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ dim+8(FP), DX
	MOVQ dst+16(FP), DI
	MOVQ rows+24(FP), SI
	MOVQ x+32(FP), R8
	MOVQ DX, R11
	ANDQ $7, R11
	JZ   row

	// Y9 masks the last, incomplete eight.
	LEAQ    masks<>+32(SB), R12
	SHLQ    $2, R11
	SUBQ    R11, R12
	VMOVUPS (R12), Y9
	SHRQ    $2, R11

row:
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	MOVQ   R8, R9
	MOVQ   DX, R10
	SUBQ   $32, R10
	JLT    eights

step:
	PREFETCHT0 1024(SI)
	PREFETCHT0 1088(SI)
	VMOVUPS    0(SI), Y4
	VMOVUPS    32(SI), Y5
	VMOVUPS    64(SI), Y6
	VMOVUPS    96(SI), Y7
	VMULPS     0(R9), Y4, Y4
	VMULPS     32(R9), Y5, Y5
	VMULPS     64(R9), Y6, Y6
	VMULPS     96(R9), Y7, Y7
	VADDPS     Y4, Y0, Y0
	VADDPS     Y5, Y1, Y1
	VADDPS     Y6, Y2, Y2
	VADDPS     Y7, Y3, Y3
	ADDQ       $128, SI
	ADDQ       $128, R9
	SUBQ       $32, R10
	JGE        step

eights:
	// 0 to 31 floats are left: whole eights go to Y0, Y1 and Y2 in turn, the rest to the one after.
	ADDQ    $32, R10
	JZ      reduce
	CMPQ    R10, $8
	JLT     rest0
	VMOVUPS (SI), Y4
	VMULPS  (R9), Y4, Y4
	VADDPS  Y4, Y0, Y0
	ADDQ    $32, SI
	ADDQ    $32, R9
	SUBQ    $8, R10
	JZ      reduce
	CMPQ    R10, $8
	JLT     rest1
	VMOVUPS (SI), Y4
	VMULPS  (R9), Y4, Y4
	VADDPS  Y4, Y1, Y1
	ADDQ    $32, SI
	ADDQ    $32, R9
	SUBQ    $8, R10
	JZ      reduce
	CMPQ    R10, $8
	JLT     rest2
	VMOVUPS (SI), Y4
	VMULPS  (R9), Y4, Y4
	VADDPS  Y4, Y2, Y2
	ADDQ    $32, SI
	ADDQ    $32, R9
	SUBQ    $8, R10
	JZ      reduce

	VMASKMOVPS (SI), Y9, Y4
	VMASKMOVPS (R9), Y9, Y5
	VMULPS     Y5, Y4, Y4
	VADDPS     Y4, Y3, Y3
	JMP        after

rest0:
	VMASKMOVPS (SI), Y9, Y4
	VMASKMOVPS (R9), Y9, Y5
	VMULPS     Y5, Y4, Y4
	VADDPS     Y4, Y0, Y0
	JMP        after

rest1:
	VMASKMOVPS (SI), Y9, Y4
	VMASKMOVPS (R9), Y9, Y5
	VMULPS     Y5, Y4, Y4
	VADDPS     Y4, Y1, Y1
	JMP        after

rest2:
	VMASKMOVPS (SI), Y9, Y4
	VMASKMOVPS (R9), Y9, Y5
	VMULPS     Y5, Y4, Y4
	VADDPS     Y4, Y2, Y2

after:
	LEAQ (SI)(R11*4), SI

reduce:
	VADDPS       Y1, Y0, Y0
	VADDPS       Y3, Y2, Y2
	VADDPS       Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VMOVHLPS     X0, X0, X1
	VADDPS       X1, X0, X0
	VMOVSHDUP    X0, X1
	VADDSS       X1, X0, X0
	VMOVSS       X0, (DI)
	ADDQ         $4, DI
	DECQ         CX
	JNZ          row
	VZEROUPPER
	RET

// Eight words of ones, then eight of zeros: a mask of the first k begins at word 8 - k.
DATA masks<>+0(SB)/8, $0xffffffffffffffff
DATA masks<>+8(SB)/8, $0xffffffffffffffff
DATA masks<>+16(SB)/8, $0xffffffffffffffff
DATA masks<>+24(SB)/8, $0xffffffffffffffff
DATA masks<>+32(SB)/8, $0
DATA masks<>+40(SB)/8, $0
DATA masks<>+48(SB)/8, $0
DATA masks<>+56(SB)/8, $0
GLOBL masks<>(SB), RODATA|NOPTR, $64
