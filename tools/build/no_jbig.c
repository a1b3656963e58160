/* libjbig.so.0 of bundles and wheels. Debian's libtiff links libjbig, whose licence is the GPL;
 * this library replaces it. It has the functions that libtiff imports, and decodes and encodes
 * nothing: libtiff refuses images of that compression with the text below. (ffpack refuses them
 * before that.) The arguments, which no function reads, are left out. */
enum { FAILED = 1 };

void jbg_dec_init(void);
void jbg_dec_free(void);
int jbg_dec_in(void);
unsigned long jbg_dec_getsize(void);
void *jbg_dec_getimage(void);
int jbg_newlen(void);
void jbg_enc_init(void);
void jbg_enc_out(void);
void jbg_enc_free(void);
const char *jbg_strerror(void);

void jbg_dec_init(void) {
}
void jbg_dec_free(void) {
}
int jbg_dec_in(void) {
    return FAILED;
}
unsigned long jbg_dec_getsize(void) {
    return 0;
}
void *jbg_dec_getimage(void) {
    return 0;
}
int jbg_newlen(void) {
    return FAILED;
}
void jbg_enc_init(void) {
}
void jbg_enc_out(void) {
}
void jbg_enc_free(void) {
}
const char *jbg_strerror(void) {
    return "JBIG images are not read: libjbig is not included because its licence is the GPL";
}
