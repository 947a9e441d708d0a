#include <sys/mman.h>
#include <stdio.h>
#include <time.h>
#include <stdlib.h>
static double now(){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec+t.tv_nsec/1e9;}
int main(int c,char**v){size_t n=1ul<<30;int huge=atoi(v[1]);for(int r=0;r<3;r++){char*p=mmap(0,n+(2<<20),PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);p=(char*)(((size_t)p+(2<<20)-1)&~((2ul<<20)-1));madvise(p,n,huge?MADV_HUGEPAGE:MADV_NOHUGEPAGE);double a=now();for(size_t i=0;i<n;i+=4096)p[i]=1;double b=now();printf("huge %d: %.3f s a GiB\n",huge,b-a);munmap(p,n);}}
